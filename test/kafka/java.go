package kafka

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/informd/informd/test/cluster/proc"
)

const (
	// clusterID is any 16 bytes in base64.
	clusterID = "aW5mb3JtZC10ZXN0LWthZg"
	// nobody is the user and the group without rights.
	nobody = 65534

	scramLogin = "org.apache.kafka.common.security.scram.ScramLoginModule required;"

	logging = `rootLogger.level = info
rootLogger.appenderRef.stdout.ref = stdout
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
logger.config.name = org.apache.kafka.common.config.AbstractConfig
logger.config.level = warn
`
)

// process is the broker's process.
func (c *Cluster) process(b *Broker) *proc.Process {
	return proc.New(proc.Spec{
		Name:  fmt.Sprint("kafka ", b.ID),
		Path:  "java",
		Args:  c.java("kafka.Kafka", c.path(b, "server.properties")),
		Log:   c.path(b, "out"),
		User:  user(),
		Ready: func(ctx context.Context) error { return b.ready(ctx) },
	})
}

// java is the command line of a class of Kafka. A small heap and one simple collector are
// enough; the first compiler is faster than the second for a process of seconds.
func (c *Cluster) java(class string, args ...string) []string {
	return append([]string{
		"-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		// No file outside of the directory.
		"-XX:-UsePerfData", "-XX:-CreateCoredumpOnCrash", "-XX:ErrorFile=" + c.dir.Join("crash.log"),
		"-Djava.io.tmpdir=" + c.dir.Join(),
		"-Dlog4j2.configurationFile=" + c.dir.Join("log4j2.properties"), "-cp", c.dir.Join("jars") + "/*", class,
	}, args...)
}

// format makes the log directory of a broker.
func (c *Cluster) format(ctx context.Context, b *Broker) error {
	runtime.LockOSThread() // as TiedToParent asks
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "java", c.java("kafka.tools.StorageTool", "format",
		"--cluster-id", clusterID, "--config", c.path(b, "server.properties"))...)
	cmd.SysProcAttr = proc.TiedToParent()
	cmd.SysProcAttr.Credential = user()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format the log of %s: %w\n%s", b.Name(), err, out)
	}
	return nil
}

// ready asks the broker whether it is one of the cluster's.
func (b *Broker) ready(ctx context.Context) error {
	answer, err := b.send(ctx, kmsg.NewPtrMetadataRequest())
	if err != nil {
		return err
	}
	metadata, ok := answer.(*kmsg.MetadataResponse)
	if !ok {
		return fmt.Errorf("the answer is a %T", answer)
	}
	for _, known := range metadata.Brokers {
		if known.NodeID == b.ID {
			return nil
		}
	}
	return fmt.Errorf("it knows %d brokers, and not itself", len(metadata.Brokers))
}

// user is whom the brokers run as: nobody for root, otherwise the user of this process.
func user() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: nobody, Gid: nobody}
}

// giveAway makes the user of the brokers the owner of a directory and all that is in it.
func giveAway(dir string) error {
	to := user()
	if to == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(to.Uid), int(to.Gid))
	})
}
