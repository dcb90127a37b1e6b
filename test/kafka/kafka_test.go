package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/informd/informd/test/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestBrokerSurvivesKills: a broker keeps what it acknowledged, runs without rights, and
// leaves nothing.
func TestBrokerSurvivesKills(t *testing.T) {
	useTempDir(t)
	cluster, err := kafka.New(t.Context(), kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cluster.Close() }()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addresses()...), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := client.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cluster.KillAll(); err != nil {
			t.Fatal(err)
		}
		if err := cluster.StartAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := cluster.Partitions(t.Context(), "t"); err != nil || len(all) != 1 || all[0].Leader != 1 {
		t.Errorf("the partitions are %v, %v", all, err)
	}
	if controller, err := cluster.Controller(t.Context()); controller != 1 || err != nil {
		t.Errorf("the controller is %d, %v", controller, err)
	}
	ends, err := admin.ListEndOffsets(t.Context(), "t")
	if end, _ := ends.Lookup("t", 0); err != nil || end.Offset != 2 {
		t.Errorf("the topic ends at %d, %v; want 2", end.Offset, err)
	}
	wantUnprivileged(t, cluster)
	wantGone(t, cluster)
}

// useTempDir makes a directory for temporary files that every user may enter, unlike that of
// t.TempDir.
func useTempDir(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "informd-kafka-test-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { // enter, not read
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
}

// wantUnprivileged checks that no broker runs as root.
func wantUnprivileged(t *testing.T, cluster *kafka.Cluster) {
	t.Helper()
	for _, b := range cluster.Brokers() {
		status, err := os.Stat(fmt.Sprintf("/proc/%d", b.PID()))
		if err != nil {
			t.Fatal(err)
		}
		if owner := ownerOf(status); owner == 0 {
			t.Errorf("%s runs as root", b.Name())
		}
	}
}

// wantGone closes the cluster and checks that no process and no file is left.
func wantGone(t *testing.T, cluster *kafka.Cluster) {
	t.Helper()
	if err := cluster.Close(); err != nil {
		t.Error(err)
	}
	for _, b := range cluster.Brokers() {
		if b.Running() {
			t.Errorf("%s still runs", b.Name())
		}
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestFailedStartLeavesNothing: a broker that ends at once is an error with its log.
func TestFailedStartLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	useTempDir(t)
	_, err := kafka.New(ctx, kafka.Options{Config: map[string]string{"num.io.threads": "0"}})
	if err == nil || !strings.Contains(err.Error(), "num.io.threads") {
		t.Fatalf("New of a broker without threads: %v", err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// ownerOf returns the user id of a file's owner, or -1.
func ownerOf(info fs.FileInfo) int {
	if status, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(status.Uid)
	}
	return -1
}
