package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	registry         = "/registry/"
	progressInterval = 100 * time.Millisecond
	// compactionKey is what the API servers watch to learn of compactions.
	compactionKey = "compact_rev_key"
)

// Oracle reads etcd's own history, independent of every API server: the truth.
// All methods are safe for concurrent use.
type Oracle struct {
	client  *clientv3.Client
	targets map[string]string // by group/kind
	notify  func(*Object, Revision)
	await   func(*Object, state)
	tiers   labels.Selector // of the Namespaces
	running sync.WaitGroup
	stop    context.CancelFunc

	mu     sync.Mutex
	truth  Truth
	keys   map[string]string  // etcd's key by UID
	latest map[string]*Object // by etcd's key: what is there now
	spaces map[string]bool    // the namespaces that match now
	epoch  int
	seen   uint64        // all revisions up to this one have been read
	moved  chan struct{} // closed when seen moves
	err    error
}

// NewOracle connects to etcd. notify is called for every revision of the kinds,
// in order, from one goroutine, and await if not every revision of the kind is an event;
// they must not call the oracle.
func NewOracle(endpoint string, kinds []*Kind, notify func(*Object, Revision), await func(*Object, state)) (*Oracle, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		MaxCallRecvMsgSize: 64 << 20, DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	o := &Oracle{
		client: client, notify: notify, await: await, tiers: spaceLabels(), targets: make(map[string]string),
		truth: Truth{
			Objects: make(map[string]*Object), Rules: rulesOf(kinds), Rejected: make(map[rejected]bool), Served: make(map[string][]uint64),
		},
		keys: make(map[string]string), latest: make(map[string]*Object), spaces: make(map[string]bool), moved: make(chan struct{}),
	}
	for _, k := range kinds {
		o.targets[k.gvr.Group+"/"+k.kind] = k.target()
	}
	o.watch(1)
	return o, nil
}

// watch reads from a revision until stop is called.
func (o *Oracle) watch(from int64) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	o.stop = cancel
	o.running.Go(func() {
		responses := o.client.Watch(ctx, registry, clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithProgressNotify())
		for response := range responses {
			if err := response.Err(); err != nil {
				if ctx.Err() == nil {
					o.fail(fmt.Errorf("watch etcd: %w", err))
				}
				return
			}
			o.take(&response)
		}
	})
	o.running.Go(func() { o.askForProgress(ctx) })
}

// askForProgress makes etcd say how far the watch is, also when nothing happens.
func (o *Oracle) askForProgress(ctx context.Context) {
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = o.client.RequestProgress(ctx) // etcd may be down; the next one counts
		}
	}
}

// Close ends the reading.
func (o *Oracle) Close() error {
	o.stop()
	o.running.Wait()
	return o.client.Close()
}

func (o *Oracle) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
	close(o.moved)
	o.moved = make(chan struct{})
}

func (o *Oracle) take(response *clientv3.WatchResponse) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if response.IsProgressNotify() {
		// Only this says that all is read: the events of one revision can come in
		// several responses.
		o.seen = max(o.seen, uint64(response.Header.Revision))
		close(o.moved)
		o.moved = make(chan struct{})
		return
	}
	for _, event := range response.Events {
		object, revision := o.record(event.Type == clientv3.EventTypeDelete, event.Kv, now)
		if object != nil {
			o.tell(object, revision)
		}
	}
}

// tell tells of a change of an object, and of what a change of its Namespace selects.
func (o *Oracle) tell(object *Object, r Revision) {
	if o.truth.Rules[object.Target].plain() {
		o.notify(object, r)
	} else {
		o.await(object, o.state(object, r.Seen))
	}
	if object.Target != namespaceTarget() || o.spaces[object.Name] == r.Matches {
		return
	}
	o.spaces[object.Name] = r.Matches
	for _, one := range o.latest {
		if one.Namespace == object.Name && o.truth.Rules[one.Target].spaces != nil {
			o.await(one, o.state(one, r.Seen))
		}
	}
}

// state returns how an object stands.
func (o *Oracle) state(object *Object, now time.Time) state {
	last, ok := object.last()
	in := ok && !last.Deleted && last.Matches
	if o.truth.Rules[object.Target].spaces != nil {
		in = in && o.spaces[object.Namespace]
	}
	return state{In: in, RV: last.RV, Gate: last.Gate, Seen: now}
}

// record adds one change; nil if it is of no kind of the run.
func (o *Oracle) record(deleted bool, kv *mvccpb.KeyValue, now time.Time) (*Object, Revision) {
	key, rv := string(kv.Key), uint64(kv.ModRevision)
	o.truth.Head = max(o.truth.Head, rv)
	if deleted {
		object := o.latest[key]
		if object == nil {
			return nil, Revision{}
		}
		delete(o.latest, key)
		last, _ := object.last() // it exists, so it has one
		r := Revision{RV: rv, Deleted: true, Hash: last.Hash, Epoch: o.epoch, Seen: now}
		object.Revisions = append(object.Revisions, r)
		return object, r
	}
	b, err := decodeObject(kv.Value)
	target := o.targets[b.group+"/"+b.kind]
	if err != nil || target == "" || b.uid == "" {
		// Not an object (an allocation map, the address of an API server), or not of
		// the run.
		return nil, Revision{}
	}
	object := o.truth.Objects[b.uid]
	if object == nil {
		object = &Object{Target: target, Namespace: b.namespace, Name: b.name, UID: b.uid}
		o.truth.Objects[b.uid] = object
		o.keys[b.uid] = key
		if plural, group, ok := strings.Cut(b.name, "."); ok && b.kind == "CustomResourceDefinition" {
			served := targetName(group, plural)
			o.truth.Served[served] = append(o.truth.Served[served], rv)
		}
	}
	o.latest[key] = object
	r := Revision{RV: rv, Hash: b.hash, Gate: b.gate, Matches: o.matches(target, b.labels), Epoch: o.epoch, Seen: now}
	object.Revisions = append(object.Revisions, r)
	return object, r
}

// matches reports whether an object's labels are selected; those of a Namespace, its objects.
func (o *Oracle) matches(target string, of labels.Set) bool {
	by := o.truth.Rules[target].labels
	if target == namespaceTarget() {
		by = o.tiers
	}
	return by == nil || by.Matches(of)
}

// Head asks etcd for its revision.
func (o *Oracle) Head(ctx context.Context) (uint64, error) {
	response, err := o.client.Get(ctx, "\x00")
	if err != nil {
		return 0, fmt.Errorf("read etcd's revision: %w", err)
	}
	return uint64(response.Header.Revision), nil
}

// CatchUp blocks until the oracle has read all that etcd holds, and returns that
// revision.
func (o *Oracle) CatchUp(ctx context.Context) (uint64, error) {
	head, err := o.Head(ctx)
	if err != nil {
		return 0, err
	}
	for {
		o.mu.Lock()
		seen, moved, err := o.seen, o.moved, o.err
		o.mu.Unlock()
		switch {
		case err != nil:
			return 0, err
		case seen >= head:
			return head, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return 0, fmt.Errorf("read etcd's history up to %d: %w at %d", head, ctx.Err(), seen)
		}
	}
}

// Compact compacts etcd up to what the oracle has read.
func (o *Oracle) Compact(ctx context.Context) error {
	revision, err := o.CatchUp(ctx)
	if err != nil {
		return err
	}
	if _, err := o.client.Put(ctx, compactionKey, fmt.Sprint(revision)); err != nil {
		return fmt.Errorf("announce a compaction: %w", err)
	}
	if _, err := o.client.Compact(ctx, int64(revision), clientv3.WithCompactPhysical()); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}

// Defragment stops etcd for a moment.
func (o *Oracle) Defragment(ctx context.Context) error {
	_, err := o.client.Defragment(ctx, o.client.Endpoints()[0])
	return err
}

// Pause ends the reading before etcd is replaced.
func (o *Oracle) Pause() {
	o.stop()
	o.running.Wait()
}

// Restored goes on with an etcd that was restored from a copy: all revisions
// above the copy's are undone. The restored etcd continues behind head; where that is
// the copy's revision, the undone numbers begin to mean something else.
func (o *Oracle) Restored(revision, head uint64) {
	o.mu.Lock()
	o.epoch++
	o.seen = head
	o.latest = make(map[string]*Object)
	for uid, object := range o.truth.Objects {
		for i := range object.Revisions {
			if object.Revisions[i].RV > revision {
				object.Revisions[i].Undone = true
			}
		}
		if last, ok := object.last(); ok && !last.Deleted {
			o.latest[o.keys[uid]] = object
		}
	}
	clear(o.spaces)
	for _, object := range o.latest {
		if last, ok := object.last(); ok && object.Target == namespaceTarget() {
			o.spaces[object.Name] = last.Matches
		}
	}
	for _, object := range o.truth.Objects {
		if !o.truth.Rules[object.Target].plain() {
			o.await(object, o.state(object, time.Now()))
		}
	}
	o.mu.Unlock()
	o.watch(int64(head) + 1)
}

// Get returns the value of a key of etcd, nil if there is none.
func (o *Oracle) Get(ctx context.Context, key string) ([]byte, error) {
	found, err := o.client.Get(ctx, key)
	if err != nil || len(found.Kvs) == 0 {
		return nil, err
	}
	return found.Kvs[0].Value, nil
}

// Truth returns what was read. Only after Close it is the caller's alone.
func (o *Oracle) Truth() *Truth { return &o.truth }

// Counts returns how many revisions and objects were read.
func (o *Oracle) Counts() (revisions, objects int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, object := range o.truth.Objects {
		revisions += len(object.Revisions)
	}
	return revisions, len(o.truth.Objects)
}
