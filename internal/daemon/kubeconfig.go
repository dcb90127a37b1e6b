package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
)

// kubernetesConfig finds the API server: the named kubeconfig, else that of the
// Pod, else $KUBECONFIG or ~/.kube/config.
func kubernetesConfig(c config.Kubernetes) (*rest.Config, error) {
	kubeconfig, err := kubeconfigOf(c)
	if err != nil {
		return nil, err
	}
	if kubeconfig == nil {
		return rest.InClusterConfig()
	}
	loaded, err := kubeconfig.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("find the API server: no kubeconfig in %s; name one with $KUBECONFIG or the key kubernetes.kubeconfig",
			strings.Join(kubeconfig.ConfigAccess().GetLoadingPrecedence(), " or "))
	}
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	return loaded, nil
}

// kubeconfigOf is the kubeconfig, which is read when it is asked, nil for the Pod's service account.
func kubeconfigOf(c config.Kubernetes) (clientcmd.ClientConfig, error) {
	if c.Kubeconfig == "" && c.Context == "" {
		_, err := rest.InClusterConfig()
		if err == nil {
			return nil, nil //nolint:nilnil // see above
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("use the Pod's service account: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	if rest, ok := strings.CutPrefix(c.Kubeconfig, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("find kubernetes.kubeconfig %s: %w", c.Kubeconfig, err)
		}
		rules.ExplicitPath = filepath.Join(home, rest)
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.Context}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides), nil
}

// kubeconfigInterval is the time between two looks at the files of the kubeconfig.
const kubeconfigInterval = 5 * time.Second

// ErrKubeconfigChanged is the error of [Daemon.Run] when the kubeconfig has other credentials than at the start.
// Everything has ended, and the caller makes the next Daemon, which uses them.
var ErrKubeconfigChanged = errors.New("the credentials in the kubeconfig have changed")

// followKubeconfig ends a run with [ErrKubeconfigChanged] when the files of the kubeconfig have changed, until ctx
// ends: client-go reads the tokens, passwords and certificates in them once. Credentials in files of their own, exec
// plugins and service accounts are client-go's to follow. A change counts once the files are the same at two looks,
// since they may be being written. With a memory journal the run goes on, because all events end with it, and so it
// does if the current context is that of another server now.
func (d *Daemon) followKubeconfig(ctx context.Context, end context.CancelCauseFunc) {
	last := d.kubeconfig
	if last == ([sha256.Size]byte{}) {
		return
	}
	wait.UntilWithContext(ctx, func(context.Context) {
		now, before := kubeconfigSum(d.config.Kubernetes), last
		if last = now; now != before || now == d.kubeconfig {
			return
		}
		d.kubeconfig = now
		next, err := kubernetesConfig(d.config.Kubernetes)
		if err == nil {
			_, err = rest.TLSConfigFor(next) // the next start would fail with other certificates
		}
		switch {
		case err != nil:
			d.logger.Warn("kubeconfig not usable; previous credentials stay in use (correct the file)", "err", err)
		case sameClient(d.kubernetes, next):
		case d.config.Journal.Type == config.JournalMemory || next.Host != d.kubernetes.Host:
			d.logger.Error("kubeconfig changed; restart informd to use it",
				"server", display.Address(next.Host), "server_in_use", display.Address(d.kubernetes.Host))
		default:
			d.logger.Info("kubeconfig credentials changed; starting again with them")
			end(ErrKubeconfigChanged)
		}
	}, d.kubeconfigInterval)
}

// sameClient reports whether two configurations make the same client. An auth provider writes the tokens that it
// has refreshed into the kubeconfig, and client-go follows a token in a file of its own.
func sameClient(a, b *rest.Config) bool {
	a, b = rest.CopyConfig(a), rest.CopyConfig(b)
	a.AuthProvider, a.AuthConfigPersister = b.AuthProvider, b.AuthConfigPersister
	if a.BearerTokenFile != "" {
		a.BearerToken = b.BearerToken // as the file had it
	}
	same := proxyOf(a) == proxyOf(b)
	a.Proxy, b.Proxy = nil, nil // no two functions are equal
	return same && reflect.DeepEqual(a, b)
}

// proxyOf is the proxy-url of the kubeconfig, empty without one.
func proxyOf(c *rest.Config) string {
	if c.Proxy == nil {
		return ""
	}
	u, err := c.Proxy(nil) // http.ProxyURL ignores the request
	if err != nil {
		return ""
	}
	return u.String()
}

// kubeconfigSum is what the files of the kubeconfig hold, zero without a kubeconfig. A file may be missing.
func kubeconfigSum(c config.Kubernetes) (sum [sha256.Size]byte) {
	kubeconfig, err := kubeconfigOf(c)
	if err != nil || kubeconfig == nil {
		return sum
	}
	h := sha256.New()
	for _, path := range kubeconfig.ConfigAccess().GetLoadingPrecedence() {
		content, err := os.ReadFile(path)
		if err != nil {
			content = []byte(err.Error())
		}
		one := sha256.Sum256(content)
		_, _ = h.Write(one[:]) // never fails
	}
	h.Sum(sum[:0])
	return sum
}
