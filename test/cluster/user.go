package cluster

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigMark is the first line of every kubeconfig written here, by which
// such a file is told from the user's own.
const kubeconfigMark = "# Written by informd's test cluster, which removes it when it ends.\n"

// User is somebody who may use the API: with the rights that RBAC objects in the
// cluster give to the name and the groups, and with none otherwise.
type User struct {
	Name   string
	Groups []string

	cluster *Cluster
	cert    pair
	file    string // prefix of the paths of the user's kubeconfigs
}

// AddUser makes a user, known by a client certificate. The API servers need no
// restart and need not even run. Adding the same name again gives a second
// certificate for the same user.
func (c *Cluster) AddUser(name string, groups ...string) (*User, error) {
	return c.AddUserUntil(time.Now().Add(certLifetime), name, groups...)
}

// AddUserUntil is AddUser with a certificate that the API servers refuse, with
// 401, from the given time on.
func (c *Cluster) AddUserUntil(end time.Time, name string, groups ...string) (*User, error) {
	cert, err := c.keys.ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		NotAfter:    end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, fmt.Errorf("add user: %w", err)
	}
	c.userMu.Lock()
	defer c.userMu.Unlock()
	user := &User{Name: name, Groups: groups, cluster: c, cert: cert, file: fmt.Sprintf("user-%d", c.users)}
	for i := range c.servers {
		if _, err := c.writeFile(user.kubeconfigName(i), kubeconfigOf(user.RESTConfigFor(i))); err != nil {
			return nil, fmt.Errorf("add user: %w", err)
		}
	}
	c.users++
	return user, nil
}

// RESTConfig returns a new client configuration for API server 0.
func (u *User) RESTConfig() *rest.Config { return u.RESTConfigFor(0) }

// RESTConfigFor returns a new client configuration for API server i.
func (u *User) RESTConfigFor(i int) *rest.Config {
	config := u.cluster.baseConfig(i)
	config.CertData, config.KeyData = u.cert.cert, u.cert.key
	return config
}

// Kubeconfig returns the path of a kubeconfig for API server 0, which lives as
// long as the cluster.
func (u *User) Kubeconfig() string { return u.KubeconfigFor(0) }

// KubeconfigFor is Kubeconfig for API server i.
func (u *User) KubeconfigFor(i int) string { return u.cluster.dir.Join(u.kubeconfigName(i)) }

func (u *User) kubeconfigName(i int) string { return fmt.Sprintf("%s-%d.kubeconfig", u.file, i) }

// RESTConfig returns a new client configuration of the administrator for API
// server 0, without client-side rate limits.
func (c *Cluster) RESTConfig() *rest.Config { return c.RESTConfigFor(0) }

// RESTConfigFor is RESTConfig for API server i.
func (c *Cluster) RESTConfigFor(i int) *rest.Config {
	config := c.baseConfig(i)
	config.BearerToken = c.adminToken
	return config
}

// Kubeconfig returns the path of the administrator's kubeconfig for API server 0.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// KubeconfigFor is Kubeconfig for API server i.
func (c *Cluster) KubeconfigFor(i int) string {
	if i == 0 {
		return c.kubeconfig
	}
	return c.dir.Join(adminKubeconfigName(i))
}

func adminKubeconfigName(i int) string { return fmt.Sprintf("admin-%d.kubeconfig", i) }

// baseConfig says where API server i is and how to know it; who asks is missing.
func (c *Cluster) baseConfig(i int) *rest.Config {
	return &rest.Config{
		Host:            c.servers[i].url,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.keys.ca.pem},
		QPS:             -1, // no limit
	}
}

// checkKubeconfig refuses to overwrite a file that no cluster wrote.
func (c *Cluster) checkKubeconfig() error {
	old, err := os.ReadFile(c.adminKubeconfigPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(old, []byte(kubeconfigMark)) {
		return fmt.Errorf("kubeconfig %s exists and is not from a test cluster: remove it or name another file", c.adminKubeconfigPath())
	}
	return nil
}

func (c *Cluster) writeAdminKubeconfigs() error {
	path := c.adminKubeconfigPath()
	if err := os.WriteFile(path, kubeconfigOf(c.RESTConfigFor(0)), 0o600); err != nil {
		return err
	}
	c.kubeconfig = path
	for i := 1; i < len(c.servers); i++ {
		if _, err := c.writeFile(adminKubeconfigName(i), kubeconfigOf(c.RESTConfigFor(i))); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) adminKubeconfigPath() string {
	if c.options.Kubeconfig != "" {
		return c.options.Kubeconfig
	}
	return c.dir.Join(adminKubeconfigName(0))
}

// kubeconfigOf returns a kubeconfig that says the same as config.
func kubeconfigOf(config *rest.Config) []byte {
	const name = "informd-test"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{
		Token:                 config.BearerToken,
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
	}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	text, err := clientcmd.Write(*file)
	if err != nil {
		panic(fmt.Sprintf("encode a kubeconfig: %v", err)) // of strings and bytes only: cannot fail
	}
	return append([]byte(kubeconfigMark), text...)
}
