package chaos

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// operatorFaults are what people do to a running informd, on purpose or by mistake.
func operatorFaults() []*fault {
	return []*fault{
		{"N24-rewind-sink", []string{"operator"}, needsInformd, rewindSink},
		{"N24-resnapshot", []string{"operator"}, needsInformd, resnapshot},
		{"N24-resnapshot-one-sink", []string{"operator"}, needsDurable, resnapshotOneSink},
		{"N24-delete-sink-stream", []string{"operator", "bus"}, needsInformd, deleteSinkStream},
	}
}

func needsInformd(r *Rig) string {
	if r.options.Baseline {
		return "the baseline has no commands"
	}
	return ""
}

// sinks are the names that informd's config gives to its sinks.
func (r *Rig) sinks() []string {
	sinks := []string{"bus", "hook"}
	if !r.options.paired() {
		sinks = append(sinks, "file")
	}
	return sinks
}

func (a *attack) sink() string { return a.sinks()[a.random.IntN(len(a.sinks()))] }

// command has one of the informds run a command of informd's own command line. It
// tries again, as other faults may be in the way.
func (a *attack) command(name string, args ...string) error {
	return a.until(func(context.Context) error {
		var errs []error
		for i := range a.informds {
			err := a.run(name, append([]string{"--config", a.configPath(i)}, args...)...)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// commandTimeout is how long an operator has patience with a command.
const commandTimeout = time.Minute

func (a *attack) run(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(a.ctx, commandTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, a.options.Binary, append([]string{name}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("informd %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func rewindSink(a *attack) error {
	return a.command("rewind", "--sink", a.sink(), "--since", a.between(2*time.Second, 30*time.Second).Round(time.Second).String())
}

func (a *attack) resource() string {
	k := a.kinds[a.random.IntN(len(a.kinds))]
	return strings.TrimPrefix(k.gvr.Group+"/"+k.gvr.Resource, "/")
}

func resnapshot(a *attack) error { return a.command("resnapshot", a.resource()) }

func resnapshotOneSink(a *attack) error {
	return a.command("resnapshot", a.resource(), "--sink", a.sink())
}

// deleteSinkStream deletes the stream of the nats sink and all its messages.
func deleteSinkStream(a *attack) error {
	return a.until(func(ctx context.Context) error {
		conn, err := nats.Connect(a.bus.URL(), nats.NoReconnect(), nats.Timeout(time.Second))
		if err != nil {
			return err
		}
		defer conn.Close()
		js, err := jetstream.New(conn)
		if err != nil {
			return err
		}
		err = js.DeleteStream(ctx, busStream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		return err
	})
}
