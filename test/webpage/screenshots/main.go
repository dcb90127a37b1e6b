// Command screenshots writes the pictures of the page for the docs: it runs informd demo, waits until the charts
// have something to show, and opens the page in a headless Chromium.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/informd/informd/test/webpage"
)

const (
	width, height = 1100, 915
	// samples are how many points the charts have: one each 15 seconds.
	samples = 12
)

func main() {
	informd := flag.String("informd", "bin/informd", "the binary")
	dir := flag.String("out", "docs/images", "the directory of the pictures")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *informd, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, informd, dir string) (err error) {
	demo, link, err := startDemo(ctx, informd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, demo()) }()
	options, err := webpage.Browser()
	if err != nil {
		return err
	}
	ctx, cancelAllocator := chromedp.NewExecAllocator(ctx, options...)
	defer cancelAllocator()
	ctx, cancel := chromedp.NewContext(ctx)
	defer cancel()
	fmt.Printf("waiting for %d samples of the demo: %s\n", samples, samples*15*time.Second)
	ready := fmt.Sprintf("document.querySelector('.chart .curve')?.getAttribute('d').split('L').length >= %d", samples)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height), chromedp.Navigate(link)); err != nil {
		return err
	}
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](ready, chromedp.WithPollingTimeout(2*samples*15*time.Second))); err != nil {
		return fmt.Errorf("wait for the charts: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, scheme := range []string{"light", "dark"} {
		if err := chromedp.Do(ctx, webpage.Scheme(scheme)); err != nil {
			return err
		}
		shot, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		if err != nil {
			return err
		}
		path := filepath.Join(dir, "page-"+scheme+".png")
		if err := os.WriteFile(path, shot, 0o644); err != nil {
			return err
		}
		fmt.Printf("%s: %d bytes\n", path, len(shot))
	}
	return nil
}

// startDemo starts the demo, and returns the link to its page and what ends it.
func startDemo(ctx context.Context, informd string) (end func() error, link string, err error) {
	cmd := exec.CommandContext(ctx, informd, "demo")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it has a directory to remove
	hints, err := cmd.StderrPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	end = func() error { return errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()) }
	lines := bufio.NewReader(hints)
	for {
		line, err := lines.ReadString('\n')
		if link := regexp.MustCompile(`http://\S+/#token=\S+`).FindString(line); link != "" {
			go io.Copy(io.Discard, lines) //nolint:errcheck // until the demo ends
			return end, link, nil
		}
		if err != nil {
			return nil, "", errors.Join(fmt.Errorf("the demo prints no link to its page: %w", err), end())
		}
	}
}
