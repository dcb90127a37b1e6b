// Package webpage finds the browser that the tests and pictures of informd's page use.
package webpage

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// Browser returns the options that start a headless Chromium of this machine.
func Browser() ([]chromedp.ExecAllocatorOption, error) {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1280, 900))
		if os.Geteuid() == 0 {
			options = append(options, chromedp.NoSandbox)
		}
		return options, nil
	}
	return nil, errors.New("no Chromium: make browser installs one on Debian")
}

// Scheme sets the color scheme that the person prefers: light or dark.
func Scheme(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}
