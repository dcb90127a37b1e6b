package replay

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// identity is a certificate that is its own authority, and the same in PEM.
func identity() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "replay"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	certificate := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// kubeconfig is a client's way to the server. Whoever comes with any token is let in.
func kubeconfig(url string, authority []byte) *clientcmdapi.Config {
	c := clientcmdapi.NewConfig()
	c.Clusters["replay"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: authority}
	c.AuthInfos["replay"] = &clientcmdapi.AuthInfo{Token: "anybody"}
	c.Contexts["replay"] = &clientcmdapi.Context{Cluster: "replay", AuthInfo: "replay"}
	c.CurrentContext = "replay"
	return c
}
