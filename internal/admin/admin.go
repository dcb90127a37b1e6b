// Package admin serves what an operator asks informd over HTTP: /healthz,
// /readyz, /metrics, /status and the page at / for everybody who reaches it, and what operator.go has
// over a unix socket, or over TCP with a token. It asks the rest of the program through
// the functions in [Options] and decides nothing but what is healthy and ready.
package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/display"
)

// hung is how long a target's loop may do nothing at all before it counts as
// hung. A loop that waits, even in a backoff, does something every 15 seconds,
// and no request of it takes longer than 90.
const hung = 5 * time.Minute

// Status is what /status says.
type Status struct {
	Version       string  `json:"version"`
	Cluster       string  `json:"cluster"`
	UptimeSeconds float64 `json:"uptimeSeconds"`
	// Follower is set while this informd follows a leader.
	Follower *Follower `json:"follower,omitempty"`
	Config   *Config   `json:"config,omitempty"`
	// TargetStates counts the targets by state.
	TargetStates map[string]int   `json:"targetStates"`
	Targets      []Target         `json:"targets"`
	Sinks        []deliver.Status `json:"sinks"`
	// DeadLetters has the length of each dead-letter queue that is not empty, by the name of
	// the sink. It includes "source" and sinks that are no longer in the config.
	DeadLetters map[string]uint64 `json:"deadLetters,omitempty"`
	Journal     Journal           `json:"journal"`
}

// Target is a target's part of /status.
type Target struct {
	Target  string `json:"target"`
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind,omitempty"`
	Mode    string `json:"mode"`
	State   string `json:"state"`
	// Reason is empty when the target is live.
	Reason string `json:"reason,omitempty"`
	// MissingVerbs are what the credentials lacked when the target was refused last.
	MissingVerbs []string  `json:"missingVerbs,omitempty"`
	Since        time.Time `json:"since"`
	Synced       bool      `json:"synced"`
	// Objects is how many objects are known to exist.
	Objects int `json:"objects"`
	// Events counts what was appended to the journal since the start; of
	// EventsPerSecond the last minute makes up half.
	Events          uint64  `json:"events"`
	EventsPerSecond float64 `json:"eventsPerSecond"`
	ResourceVersion uint64  `json:"resourceVersion,string"`
	Epoch           uint64  `json:"epoch"`
	// LastProgress is when the last message of the API server came, bookmarks included.
	LastProgress time.Time `json:"lastProgress,omitzero"`
	// Blocked: the target waits for the journal, since BlockedSince.
	Blocked      bool      `json:"blocked"`
	BlockedSince time.Time `json:"blockedSince,omitzero"`
	Rejected     uint64    `json:"rejected"`
	// LastAudit is when what was announced was last compared with the cluster;
	// Divergences counts the objects that ever differed.
	LastAudit   time.Time `json:"lastAudit,omitzero"`
	Divergences uint64    `json:"divergences"`
	// Stuck counts watches that did not reach a known revision in time.
	Stuck uint64 `json:"stuck,omitempty"`

	// Looked: it is known whether the resource is there and may be read.
	Looked bool `json:"-"`
	// Beat is when the target's loop last did anything.
	Beat time.Time `json:"-"`
}

// Follower describes a process that copies the log of a leader.
type Follower struct {
	// Leader is the address of the leader, empty while there is none.
	Leader string `json:"leader,omitempty"`
	// InSync: a takeover would lose nothing.
	InSync bool `json:"inSync"`
}

// Journal is the journal's part of /status.
type Journal struct {
	Type     string `json:"type"`
	Events   uint64 `json:"events"`
	Bytes    uint64 `json:"bytes"`
	Capacity uint64 `json:"capacityBytes"`
	LastSeq  uint64 `json:"lastSeq"`
	// Blocked is how many targets wait for free space.
	Blocked int `json:"blocked"`
	// Problem says why the disk of the journal does not work, empty if it does.
	Problem string `json:"problem,omitempty"`
	// Unusable: nothing can be appended to it. It mends without a new process.
	Unusable bool `json:"-"`
	// Stuck: only a new process helps.
	Stuck bool `json:"-"`
	// Lost counts how often the log was found to lack what it had acknowledged.
	Lost uint64 `json:"lost"`
	// Dropped counts the events that a journal short of space removed before every sink had
	// them, by namespace. It has at most 32 namespaces; "(other)" counts for the rest.
	Dropped map[string]uint64 `json:"dropped,omitempty"`
}

// Config is the config's part of /status.
type Config struct {
	Path string `json:"path"`
	// LastReload is when it was last read, the start included. Successful says that
	// what was read is in use; if not, Error says why.
	LastReload time.Time `json:"lastReload"`
	Successful bool      `json:"lastReloadSuccessful"`
	Error      string    `json:"lastReloadError,omitempty"`
	// LastSuccess is when what is in use was read.
	LastSuccess time.Time `json:"lastReloadSuccess"`
}

// healthz is red when a loop or the disk of the journal hangs: only a restart
// helps then. A dead sink, an absent API server or a full journal are not mended by one.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	var reasons []string
	if j := s.options.Journal(); j.Stuck {
		reasons = append(reasons, "journal: "+j.Problem)
	}
	for _, t := range s.options.Targets() {
		if idle := time.Since(t.Beat); idle > hung && !t.Blocked {
			reasons = append(reasons, fmt.Sprintf("target %s has done nothing for %s", t.Target, idle.Round(time.Second)))
		}
	}
	answer(w, reasons)
}

// maxReasons bounds how many targets an answer names.
const maxReasons = 20

// statesOf counts targets by state.
func statesOf(targets []Target) map[string]int {
	states := make(map[string]int)
	for i := range targets {
		states[targets[i].State]++
	}
	return states
}

// readyz is green once of every target it is known whether it can be watched, while the
// journal can be written and no target waits for it for long.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	targets := s.options.Targets()
	var reasons []string
	if f := s.follower(); f != nil {
		if !f.InSync {
			reasons = append(reasons, "the copy of the leader's log is not complete")
		}
		answer(w, reasons)
		return
	}
	if j := s.options.Journal(); j.Unusable {
		reasons = append(reasons, "journal: "+j.Problem)
	}
	if len(targets) == 0 {
		reasons = append(reasons, "nothing is watched: informd is starting or stopping")
	}
	answer(w, append(reasons, unready(targets)...))
}

// blockedFor is how long a target may wait for the journal before informd is not ready. A
// sink that is slow for a moment is no matter.
const blockedFor = 30 * time.Second

// unready says which targets keep informd from being ready, and why.
func unready(targets []Target) (reasons []string) {
	for _, t := range targets {
		if !t.Looked {
			reasons = append(reasons, strings.TrimSuffix(fmt.Sprintf("target %s is %s: %s", t.Target, t.State, t.Reason), ": "))
		} else if !t.BlockedSince.IsZero() && time.Since(t.BlockedSince) >= blockedFor {
			reasons = append(reasons, fmt.Sprintf("target %s waits for the journal since %s", t.Target, time.Since(t.BlockedSince).Round(time.Second)))
		}
	}
	if more := len(reasons) - maxReasons; more > 0 {
		reasons = append(reasons[:maxReasons], fmt.Sprintf("%d more targets are not known yet or wait for the journal", more))
	}
	return reasons
}

func answer(w http.ResponseWriter, reasons []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if len(reasons) == 0 {
		fmt.Fprintln(w, "ok")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintln(w, strings.Join(reasons, "\n"))
}

// follower is nil unless this informd follows a leader.
func (s *Server) follower() *Follower {
	if s.options.Follower == nil {
		return nil
	}
	return s.options.Follower()
}

// status shows everything at once.
func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(display.JSONWriter(w))
	e.SetIndent("", "  ")
	if err := e.Encode(s.now()); err != nil {
		s.options.Logger.Debug("status not available", "err", err)
	}
}

// now is the status of this moment.
func (s *Server) now() Status {
	targets := s.options.Targets()
	return Status{
		Version: s.options.Version, Cluster: s.options.Cluster,
		UptimeSeconds: time.Since(s.started).Seconds(), Follower: s.follower(),
		Config:       s.options.Config(),
		TargetStates: statesOf(targets), Targets: targets, Sinks: s.options.Sinks(), Journal: s.options.Journal(),
		DeadLetters: s.options.DeadLetters(),
	}
}
