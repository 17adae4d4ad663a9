package e2e

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	key  crypto.Signer
	cert *x509.Certificate
	text string
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a private authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, cert: cert, pool: x509.NewCertPool(), text: pemText("CERTIFICATE", der)}
	a.pool.AddCert(cert)
	return a
}

// issue writes a new certificate and key for a server on 127.0.0.1, and answers its serial number.
func (a *authority) issue(t *testing.T, dir string) *big.Int {
	t.Helper()
	template := &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, key := a.sign(t, template)
	write := func(name, text string) error {
		// Renamed into place, as a mounted Secret changes.
		file := filepath.Join(dir, name)
		return errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file))
	}
	if err := errors.Join(write("tls.key", key), write("tls.crt", cert)); err != nil {
		t.Fatal(err)
	}
	return template.SerialNumber
}

// write writes the authority's own certificate.
func (a *authority) write(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(a.text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// client is a certificate and key, in PEM, for the client that these DNS names name.
func (a *authority) client(t *testing.T, names ...string) (cert, key string) {
	t.Helper()
	return a.sign(t, &x509.Certificate{DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// sign makes a key, and a certificate for it that is good for an hour.
func (a *authority) sign(t *testing.T, template *x509.Certificate) (cert, key string) {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	private := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pemText("CERTIFICATE", der), pemText("PRIVATE KEY", keyDER)
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pemText(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
