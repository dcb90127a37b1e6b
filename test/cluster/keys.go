package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	adminName = "admin"
	// adminGroup may do everything, by a role that the API server brings along.
	adminGroup = "system:masters"

	certLifetime = 10 * 365 * 24 * time.Hour
	// clockSkew dates certificates back, in case the clock is set back a little.
	clockSkew = time.Hour
)

// keys are the secrets of one cluster, made new at every start.
type keys struct {
	ca                    *authority
	caFile                string
	servingCertFile       string
	servingKeyFile        string
	serviceAccountKeyFile string
	tokenFile             string
}

// authority signs certificates for servers and users alike.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// writeSecrets makes the cluster's keys and writes those that the API servers read.
func (c *Cluster) writeSecrets() error {
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	serving, err := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		NotAfter:    time.Now().Add(certLifetime),
		DNSNames:    []string{"localhost", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	serviceAccounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serviceAccountPEM, err := keyPEM(serviceAccounts)
	if err != nil {
		return err
	}
	c.adminToken = rand.Text()
	c.keys = &keys{ca: ca}
	for _, file := range []struct {
		name    string
		content []byte
		path    *string
	}{
		{"ca.crt", ca.pem, &c.keys.caFile},
		{"serving.crt", serving.cert, &c.keys.servingCertFile},
		{"serving.key", serving.key, &c.keys.servingKeyFile},
		{"service-account.key", serviceAccountPEM, &c.keys.serviceAccountKeyFile},
		{"tokens.csv", fmt.Appendf(nil, "%s,%s,%s,%q\n", c.adminToken, adminName, adminName, adminGroup), &c.keys.tokenFile},
	} {
		if *file.path, err = c.writeFile(file.name, file.content); err != nil {
			return err
		}
	}
	return nil
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "informd-test-ca"},
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-clockSkew),
		NotAfter:              time.Now().Add(certLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the CA certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, pem: certPEM(der)}, nil
}

// pair is a certificate with its key, both in PEM.
type pair struct {
	cert, key []byte
}

// issue signs the template with a new key. The template says who, for what and
// until when.
func (a *authority) issue(template *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return pair{}, err
	}
	template.NotBefore = time.Now().Add(-clockSkew)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("issue certificate for %s: %w", template.Subject.CommonName, err)
	}
	encoded, err := keyPEM(key)
	if err != nil {
		return pair{}, err
	}
	return pair{cert: certPEM(der), key: encoded}, nil
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
