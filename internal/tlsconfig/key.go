package tlsconfig

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// readKey returns a key as PEM that is not encrypted. Errors begin with the
// setting that they are about.
func readKey(name, pass string) ([]byte, error) {
	text, err := readFile(name)
	if err != nil {
		return nil, fmt.Errorf("tls-key-file: %w", err)
	}
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, fmt.Errorf("tls-key-file: %s holds no key", name)
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		if block, err = open(block, pass); err != nil {
			return nil, fmt.Errorf("%w (of %s)", err, name)
		}
		return pem.EncodeToMemory(block), nil
	}
}

// open decrypts a key that is encrypted.
func open(block *pem.Block, pass string) (*pem.Block, error) {
	pkcs8 := block.Type == "ENCRYPTED PRIVATE KEY"
	//lint:ignore SA1019 weak as it is, operators have such files
	legacy := x509.IsEncryptedPEMBlock(block)
	if !pkcs8 && !legacy {
		return block, nil
	}
	if pass == "" {
		return nil, errors.New("tls-key-file-pass: the key is encrypted, and there is no password")
	}
	if legacy {
		//lint:ignore SA1019 as above
		der, err := x509.DecryptPEMBlock(block, []byte(pass))
		if err != nil {
			return nil, fmt.Errorf("tls-key-file-pass: %w", err)
		}
		return &pem.Block{Type: block.Type, Bytes: der}, nil
	}
	der, err := decryptPKCS8(block.Bytes, pass)
	if err != nil {
		return nil, err
	}
	return &pem.Block{Type: "PRIVATE KEY", Bytes: der}, nil
}

// The structures of RFC 5208 and RFC 8018: an encrypted key, and how it is
// encrypted with a password.
type encryptedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

type pbes2Params struct{ Derivation, Encryption pkix.AlgorithmIdentifier }

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyBytes   int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
)

// prfs are the hashes of HMAC by the last number of 1.2.840.113549.2.
var prfs = map[string]func() hash.Hash{
	"1.2.840.113549.2.7": sha1.New, "1.2.840.113549.2.9": sha256.New, "1.2.840.113549.2.10": sha512.New384, "1.2.840.113549.2.11": sha512.New,
}

// keyBytesOf are the ciphers: AES in CBC mode.
var keyBytesOf = map[string]int{
	"2.16.840.1.101.3.4.1.2": 16, "2.16.840.1.101.3.4.1.22": 24, "2.16.840.1.101.3.4.1.42": 32,
}

// maxIterations bounds the time that a file can make the derivation take.
const maxIterations = 10_000_000

var (
	errKeyForm  = errors.New("tls-key-file: the encrypted key cannot be read")
	errKeyKind  = errors.New("tls-key-file: the key is encrypted in another way than by PBES2 with PBKDF2 and AES-CBC, as openssl pkcs8 -topk8 -v2 aes256 does it")
	errPassword = errors.New("tls-key-file-pass: the password is not that of the key")
)

// decryptPKCS8 returns the PKCS #8 key in an encrypted one.
func decryptPKCS8(der []byte, pass string) ([]byte, error) {
	var key encryptedKey
	if rest, err := asn1.Unmarshal(der, &key); err != nil || len(rest) > 0 {
		return nil, errKeyForm
	}
	if !key.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, errKeyKind
	}
	var scheme pbes2Params
	if _, err := asn1.Unmarshal(key.Algorithm.Parameters.FullBytes, &scheme); err != nil {
		return nil, errKeyForm
	}
	keyBytes := keyBytesOf[scheme.Encryption.Algorithm.String()]
	if !scheme.Derivation.Algorithm.Equal(oidPBKDF2) || keyBytes == 0 {
		return nil, errKeyKind
	}
	var derivation pbkdf2Params
	if _, err := asn1.Unmarshal(scheme.Derivation.Parameters.FullBytes, &derivation); err != nil {
		return nil, errKeyForm
	}
	prf := sha1.New // where none is named
	if oid := derivation.PRF.Algorithm; oid != nil {
		if prf = prfs[oid.String()]; prf == nil {
			return nil, errKeyKind
		}
	}
	var iv []byte
	if _, err := asn1.Unmarshal(scheme.Encryption.Parameters.FullBytes, &iv); err != nil || len(iv) != aes.BlockSize ||
		derivation.Iterations < 1 || derivation.Iterations > maxIterations || len(key.Data) == 0 || len(key.Data)%aes.BlockSize != 0 {
		return nil, errKeyForm
	}
	secret, err := pbkdf2.Key(prf, pass, derivation.Salt, derivation.Iterations, keyBytes)
	if err != nil {
		return nil, errKeyForm
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, errKeyForm
	}
	plain := make([]byte, len(key.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, key.Data)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > aes.BlockSize {
		return nil, errPassword
	}
	plain = plain[:len(plain)-padding]
	if _, err := x509.ParsePKCS8PrivateKey(plain); err != nil {
		return nil, errPassword
	}
	return plain, nil
}
