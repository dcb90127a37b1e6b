package informer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/pkg/informer"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// programEnv makes the test's binary the program under test: a kubeconfig and a directory.
const programEnv = "INFORMER_TEST_PROGRAM"

// defaultWarmObjects is the number of objects that do not change, WARM_OBJECTS sets another one.
const defaultWarmObjects = 5_000

func TestMain(m *testing.M) {
	if setting := os.Getenv(programEnv); setting != "" {
		kubeconfig, dir, _ := strings.Cut(setting, "\n")
		if err := runProgram(kubeconfig, dir); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// runProgram has a durable informer. It prints the calls of its handler, and, when it is synced, the
// number of objects and the time that it took.
func runProgram(kubeconfig, dir string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	began := time.Now()
	log, err := journal.Open(journal.Config{Dir: dir, Cluster: "test", Logger: quiet})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	opened := time.Since(began)
	factory, err := informer.NewFactory(config, informer.Options{Namespace: namespace, Journal: log, Cluster: "test", Logger: quiet})
	if err != nil {
		return err
	}
	i := factory.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Informer()
	if _, err := i.AddEventHandler(printer{}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if cache.WaitForCacheSync(ctx.Done(), i.HasSynced) {
		fmt.Println("synced", len(i.GetStore().ListKeys()), time.Since(began), opened)
	}
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

// printer prints calls, one line each: the last one of an object is its state.
type printer struct{}

func line(action string, o any) {
	if object, ok := o.(metav1.Object); ok {
		fmt.Println(action, object.GetName(), stateOf(object))
	}
}

func (printer) OnAdd(o any, _ bool) { line("is", o) }
func (printer) OnUpdate(_, now any) { line("is", now) }
func (printer) OnDelete(deleted any) {
	if last, ok := deleted.(cache.DeletedFinalStateUnknown); ok {
		fmt.Println("gone", strings.TrimPrefix(last.Key, namespace+"/"))
		return
	}
	line("gone", deleted)
}

// reader is what a test knows from the lines of all processes.
type reader struct {
	mu     sync.Mutex
	states map[string]string // by name
	lines  int               // of the process that runs
	fixed  int               // those of objects that do not change
	synced []string          // the last line of that kind
}

func (r *reader) read(out *bufio.Scanner) {
	for out.Scan() {
		words := append(strings.Fields(out.Text()), "")
		r.mu.Lock()
		switch words[0] {
		case "is":
			r.states[words[1]] = words[2] + " " + words[3]
			r.lines++
			if strings.HasPrefix(words[1], "fixed-") {
				r.fixed++
			}
		case "gone":
			delete(r.states, words[1])
			r.lines++
		case "synced":
			r.synced = words
		}
		r.mu.Unlock()
	}
}

func (r *reader) all() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.states)
}

// start starts a process, and returns a function that ends it with a signal.
func (r *reader) start(t *testing.T, kubeconfig, dir string) (end func(os.Signal)) {
	t.Helper()
	r.mu.Lock()
	r.lines, r.fixed, r.synced = 0, 0, nil
	r.mu.Unlock()
	self, err := os.Executable()
	e2e.Must(t, err)
	c := exec.CommandContext(context.WithoutCancel(t.Context()), self)
	c.Env, c.Stderr = append(os.Environ(), programEnv+"="+kubeconfig+"\n"+dir), t.Output()
	out, err := c.StdoutPipe()
	e2e.Must(t, err)
	e2e.Must(t, c.Start())
	read := make(chan struct{})
	go func() { defer close(read); r.read(bufio.NewScanner(out)) }()
	var once sync.Once
	end = func(s os.Signal) {
		once.Do(func() {
			_ = c.Process.Signal(s)
			<-read
			_ = c.Wait() // killed
		})
	}
	t.Cleanup(func() { end(os.Kill) })
	return end
}

// wait waits until the process is synced, and returns its number of objects.
func (r *reader) wait(t *testing.T) (objects int) {
	t.Helper()
	e2e.Eventually(t, "the process is synced", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.synced != nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	objects, _ = strconv.Atoi(r.synced[1])
	t.Logf("%d objects after %s, the journal open after %s; calls of the handler: %d", objects, r.synced[2], r.synced[3], r.lines)
	return objects
}

// TestWarmRestarts kills a program with a durable informer again and again, while objects change.
// The calls of its handlers, of all processes together, lead to the state of the server. A restart
// hands out what has changed, and nothing else.
func TestWarmRestarts(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	api := client(t, c.RESTConfig())
	fixed := defaultWarmObjects
	if set := os.Getenv("WARM_OBJECTS"); set != "" {
		var err error
		if fixed, err = strconv.Atoi(set); err != nil {
			t.Fatal(err)
		}
	}
	createMany(t, c, fixed)
	dir := t.TempDir()
	r := &reader{states: map[string]string{}}
	random := rand.New(rand.NewPCG(26, 11))
	for round := range 6 {
		end := r.start(t, c.Kubeconfig(), dir)
		for n := range 10 { // also while the process starts
			changeOne(t.Context(), t, api, fmt.Sprintf("object-%d", random.IntN(20)), n)
		}
		if objects := r.wait(t); round > 0 && objects < fixed {
			t.Fatalf("the store has %d objects, want at least %d", objects, fixed)
		}
		for n := range 30 {
			changeOne(t.Context(), t, api, fmt.Sprintf("object-%d", random.IntN(20)), n)
		}
		end(os.Kill)
		for n := range 10 { // while no process runs
			changeOne(t.Context(), t, api, fmt.Sprintf("object-%d", random.IntN(20)), n)
		}
	}
	r.start(t, c.Kubeconfig(), dir)
	r.wait(t)
	list, err := api.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	e2e.Must(t, err)
	want := map[string]string{}
	for i := range list.Items {
		want[list.Items[i].Name] = stateOf(&list.Items[i])
	}
	e2e.Eventually(t, "the lines lead to the state of the server", func() bool { return maps.Equal(r.all(), want) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fixed > 0 {
		t.Errorf("the last process has made %d calls for objects that have not changed", r.fixed)
	}
}

// createMany creates objects that do not change.
func createMany(t *testing.T, c *cluster.Cluster, n int) {
	t.Helper()
	config := c.RESTConfig()
	config.QPS = -1
	api := client(t, config)
	content := map[string]string{"content": strings.Repeat("configuration = \"value\"\n", 30)}
	e2e.InParallel(t, n, func(ctx context.Context, i int) error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("fixed-%d", i)}, Data: content}
		_, err := api.CoreV1().ConfigMaps(namespace).Create(ctx, object, metav1.CreateOptions{})
		return err
	})
}
