//go:build !race

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

// runEtcd runs one etcd member in the foreground, until SIGINT, SIGTERM or an
// error of the server.
func runEtcd(args []string) error {
	config, err := etcdConfig(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	server, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return fmt.Errorf("etcd: %w", err)
	case <-server.Server.StopNotify():
		return errors.New("etcd stopped by itself")
	}
}

func etcdConfig(args []string) (*embed.Config, error) {
	config := embed.NewConfig()
	flags := flag.NewFlagSet("controlplane etcd", flag.ExitOnError)
	flags.StringVar(&config.Dir, "data-dir", "", "`directory` of the data")
	flags.Int64Var(&config.QuotaBackendBytes, "quota-backend-bytes", 0, "size limit of the data; 0 is etcd's default, 2 GiB")
	client := flags.String("client-url", "", "`URL` to serve clients on")
	peer := flags.String("peer-url", "", "`URL` to serve other members on, which there are none of")
	_ = flags.Parse(args) // exits on error

	if config.Dir == "" {
		return nil, errors.New("--data-dir is required")
	}
	clientURL, err := url.Parse(*client)
	if err != nil {
		return nil, fmt.Errorf("--client-url: %w", err)
	}
	peerURL, err := url.Parse(*peer)
	if err != nil {
		return nil, fmt.Errorf("--peer-url: %w", err)
	}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*clientURL}, []url.URL{*clientURL}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peerURL}, []url.URL{*peerURL}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	// What the process wrote survives a kill of the process without fsync; only
	// a power cut would lose it, and that is not among the faults tested here.
	config.UnsafeNoFsync = true
	return config, nil
}
