package objectstore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Config selects a server and the credentials for it.
type Config struct {
	Endpoint   string // URL; empty: AWS, in Region
	Region     string // with an Endpoint, empty is us-east-1, the default of other servers
	Addressing string // of buckets: path, virtual (as host names), or auto: virtual on AWS, path elsewhere
	CAFile     string // PEM; CAs trusted in addition to the system's
	Timeout    time.Duration
	Credentials
}

// Credentials are of one of three kinds, the first that is set: an access key; a web identity that AWS's STS exchanges
// for one (a service account with a role); or an agent that returns one (EKS Pod Identity, ECS).
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string

	WebIdentityTokenFile, RoleARN string
	STSEndpoint                   string // URL; empty: AWS's, in the region

	ContainerURI, ContainerRelativeURI, ContainerTokenFile string
}

// Values of Config.Addressing.
const (
	AddressingAuto    = "auto"
	AddressingPath    = "path"
	AddressingVirtual = "virtual"
)

const (
	aws           = "s3.amazonaws.com"
	defaultRegion = "us-east-1"
	attempts      = 5
)

// Open returns a client of a bucket, or all problems of the settings. It sends no request.
func Open(cfg Config, bucket string) (*Bucket, []string) {
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	lookup, known := map[string]minio.BucketLookupType{
		"": minio.BucketLookupAuto, AddressingAuto: minio.BucketLookupAuto, AddressingPath: minio.BucketLookupPath, AddressingVirtual: minio.BucketLookupDNS,
	}[cfg.Addressing]
	if !known {
		problem("S3_ADDRESSING is %q: it must be auto, path or virtual", cfg.Addressing)
	}
	host, secure := aws, true
	if cfg.Endpoint != "" {
		u, err := url.Parse(cfg.Endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || !isPort(u.Port()) {
			problem("AWS_ENDPOINT_URL_S3 must be a URL of a server alone, such as https://minio.example.com:9000")
		} else {
			host, secure = u.Host, u.Scheme == "https"
		}
	}
	if cfg.Region == "" {
		if cfg.Region = defaultRegion; cfg.Endpoint == "" {
			problem("AWS_REGION is required: the region of the bucket (or, of another service than AWS, AWS_ENDPOINT_URL_S3)")
		}
	}
	if cfg.Timeout <= 0 {
		problem("S3_TIMEOUT must be a time such as 15m")
	}
	transport, err := newTransport(cfg.CAFile)
	if err != nil {
		problem("AWS_CA_BUNDLE: %v", err)
	}
	for _, header := range []struct{ name, value string }{
		{"AWS_ACCESS_KEY_ID", cfg.AccessKeyID}, {"AWS_SECRET_ACCESS_KEY", cfg.SecretAccessKey}, {"AWS_SESSION_TOKEN", cfg.SessionToken}, {"AWS_REGION", cfg.Region},
	} {
		if strings.ContainsFunc(header.value, unicode.IsSpace) {
			problem("%s has a space or a line break in it", header.name) // common in a Secret created from a file
		}
	}
	creds, wrong := cfg.provider(cfg.Region, transport)
	if problems = append(problems, wrong...); len(problems) > 0 {
		return nil, problems
	}
	client, err := minio.New(host, &minio.Options{
		Creds: creds, Secure: secure, Region: cfg.Region, BucketLookup: lookup, Transport: asking{transport}, MaxRetries: attempts,
	})
	if err != nil {
		return nil, []string{fmt.Sprintf("AWS_ENDPOINT_URL_S3: %v", err)}
	}
	return &Bucket{core: minio.Core{Client: client}, bucket: bucket, timeout: cfg.Timeout}, nil
}

// isPort reports whether a URL's port is valid or absent.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && n > 0
}

// newTransport bounds the wait for a server that is down or stalls.
func newTransport(caFile string) (*http.Transport, error) {
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute, ExpectContinueTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 2, MaxResponseHeaderBytes: 64 << 10,
		DisableCompression: true, // the digest is of the stored bytes
		TLSClientConfig:    &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if caFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return t, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return t, err
	}
	if !pool.AppendCertsFromPEM(pem) {
		return t, fmt.Errorf("%s has no certificate in PEM", caFile)
	}
	t.TLSClientConfig.RootCAs = pool
	return t, nil
}

// asking sends Expect: 100-continue before a body, so that a server can answer with an error instead of closing the
// connection.
type asking struct{ http.RoundTripper }

func (a asking) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		r = r.Clone(r.Context())
		r.Header.Set("Expect", "100-continue")
	}
	return a.RoundTripper.RoundTrip(r)
}

// provider returns the credentials. Anonymous access is refused: a bucket that is open to all must not hold a fleet.
func (c Credentials) provider(region string, transport *http.Transport) (*credentials.Credentials, []string) {
	iam := &credentials.IAM{Client: &http.Client{Transport: transport, Timeout: time.Minute}, Region: region}
	switch {
	case c.AccessKeyID != "" && c.SecretAccessKey != "":
		return credentials.NewStaticV4(c.AccessKeyID, c.SecretAccessKey, c.SessionToken), nil
	case c.AccessKeyID != "" || c.SecretAccessKey != "":
		return nil, []string{"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together: set both or neither"}
	case c.WebIdentityTokenFile != "" && c.RoleARN != "":
		iam.EKSIdentity.TokenFile, iam.EKSIdentity.RoleARN, iam.Endpoint = c.WebIdentityTokenFile, c.RoleARN, c.STSEndpoint
	case c.WebIdentityTokenFile != "":
		return nil, []string{"AWS_WEB_IDENTITY_TOKEN_FILE needs AWS_ROLE_ARN: the role that is asked for"}
	case c.ContainerURI != "":
		iam.Container.CredentialsFullURI, iam.Container.AuthorizationTokenFile = c.ContainerURI, c.ContainerTokenFile
		iam.Container.AuthorizationToken = c.ContainerTokenFile // where minio-go 7.4.1 looks for the file's name
	case c.ContainerRelativeURI != "":
		iam.Container.CredentialsRelativeURI = c.ContainerRelativeURI
	default:
		return nil, []string{"there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the pod's service account a role"}
	}
	return credentials.New(iam), nil
}
