// Package xxh3 is the 64-bit hash XXH3 without a seed, as DIGEST answers it. The
// algorithm and its constants are those of the specification of xxHash
// (doc/xxhash_spec.md of Cyan4973/xxHash, in force since version 0.8).
package xxh3

import (
	"encoding/binary"
	"math/bits"
)

const (
	prime32a = 0x9E3779B1
	prime32b = 0x85EBCA77
	prime32c = 0xC2B2AE3D

	prime64a = 0x9E3779B185EBCA87
	prime64b = 0xC2B2AE3D27D4EB4F
	prime64c = 0x165667B19E3779F9
	prime64d = 0x85EBCA77C2B2AE63
	prime64e = 0x27D4EB2F165667C5

	primeMixA = 0x165667919E3779F9
	primeMixB = 0x9FB21C651E98DF25
)

// secret is what the specification mixes in where there is no seed.
const secret = "" +
	"\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe\x7c\x01\x81\x2c\xf7\x21\xad\x1c\xde\xd4\x6d\xe9\x83\x90\x97\xdb\x72\x40\xa4\xa4\xb7\xb3\x67\x1f" +
	"\xcb\x79\xe6\x4e\xcc\xc0\xe5\x78\x82\x5a\xd0\x7d\xcc\xff\x72\x21\xb8\x08\x46\x74\xf7\x43\x24\x8e\xe0\x35\x90\xe6\x81\x3a\x26\x4c" +
	"\x3c\x28\x52\xbb\x91\xc3\x00\xcb\x88\xd0\x65\x8b\x1b\x53\x2e\xa3\x71\x64\x48\x97\xa2\x0d\xf9\x4e\x38\x19\xef\x46\xa9\xde\xac\xd8" +
	"\xa8\xfa\x76\x3f\xe3\x9c\x34\x3f\xf9\xdc\xbb\xc7\xc7\x0b\x4f\x1d\x8a\x51\xe0\x4b\xcd\xb4\x59\x31\xc8\x9f\x7e\xc9\xd9\x78\x73\x64" +
	"\xea\xc5\xac\x83\x34\xd3\xeb\xc3\xc5\x81\xa0\xff\xfa\x13\x63\xeb\x17\x0d\xdd\x51\xb7\xf0\xda\x49\xd3\x16\x55\x26\x29\xd4\x68\x9e" +
	"\x2b\x16\xbe\x58\x7d\x47\xa1\xfc\x8f\xf8\xb8\xd1\x7a\xd0\x31\xce\x45\xcb\x3a\x8f\x95\x16\x04\x28\xaf\xd7\xfb\xca\xbb\x4b\x40\x7e"

// key returns the eight bytes of the secret from i on.
func key(i int) uint64 {
	_ = secret[i+7]
	return uint64(secret[i]) | uint64(secret[i+1])<<8 | uint64(secret[i+2])<<16 | uint64(secret[i+3])<<24 |
		uint64(secret[i+4])<<32 | uint64(secret[i+5])<<40 | uint64(secret[i+6])<<48 | uint64(secret[i+7])<<56
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// Sum64 returns the hash of b.
func Sum64(b []byte) uint64 {
	n := len(b)
	switch {
	case n == 0:
		return avalanche64(key(56) ^ key(64))
	case n <= 3:
		return upTo3(b)
	case n <= 8:
		return upTo8(b)
	case n <= 16:
		return upTo16(b)
	case n <= 128:
		return upTo128(b)
	case n <= 240:
		return upTo240(b)
	}
	return long(b)
}

func upTo3(b []byte) uint64 {
	n := uint32(len(b))
	combined := uint32(b[0])<<16 | uint32(b[n>>1])<<24 | uint32(b[n-1]) | n<<8
	flip := uint32(key(0)) ^ uint32(key(0)>>32)
	return avalanche64(uint64(combined ^ flip))
}

func upTo8(b []byte) uint64 {
	n := len(b)
	first, last := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[n-4:])
	h := (uint64(last) + uint64(first)<<32) ^ key(8) ^ key(16)
	h ^= bits.RotateLeft64(h, 49) ^ bits.RotateLeft64(h, 24)
	h *= primeMixB
	h ^= h>>35 + uint64(n)
	h *= primeMixB
	return h ^ h>>28
}

func upTo16(b []byte) uint64 {
	n := len(b)
	low := word(b) ^ key(24) ^ key(32)
	high := word(b[n-8:]) ^ key(40) ^ key(48)
	return avalanche(uint64(n) + bits.ReverseBytes64(low) + high + fold(low, high))
}

func upTo128(b []byte) uint64 {
	n := len(b)
	acc := uint64(n) * prime64a
	for i := (n - 1) / 32; i >= 0; i-- {
		acc += mix(b[16*i:], 32*i) + mix(b[n-16*(i+1):], 32*i+16)
	}
	return avalanche(acc)
}

func upTo240(b []byte) uint64 {
	const (
		firstRounds = 8
		startOffset = 3
		lastOffset  = 136 - 17
	)
	n := len(b)
	acc := uint64(n) * prime64a
	for i := range firstRounds {
		acc += mix(b[16*i:], 16*i)
	}
	acc = avalanche(acc)
	for i := firstRounds; i < n/16; i++ {
		acc += mix(b[16*i:], 16*(i-firstRounds)+startOffset)
	}
	return avalanche(acc + mix(b[n-16:], lastOffset))
}

const (
	stripeBytes     = 64
	stripesPerBlock = (len(secret) - stripeBytes) / 8 // each takes the secret from eight bytes further on
	blockBytes      = stripeBytes * stripesPerBlock
)

// lanes are the sums that a long input is gathered in.
type lanes [8]uint64

func long(b []byte) uint64 {
	acc := lanes{prime32c, prime64a, prime64b, prime64c, prime64d, prime32b, prime64e, prime32a}
	n := len(b)
	rest := b
	for len(rest) > blockBytes {
		for i := range stripesPerBlock {
			acc.add(rest[stripeBytes*i:], 8*i)
		}
		acc.scramble()
		rest = rest[blockBytes:]
	}
	for i := range (len(rest) - 1) / stripeBytes {
		acc.add(rest[stripeBytes*i:], 8*i)
	}
	acc.add(b[n-stripeBytes:], len(secret)-stripeBytes-7)
	h := uint64(n) * prime64a
	for i := 0; i < len(acc); i += 2 {
		h += fold(acc[i]^key(11+8*i), acc[i+1]^key(19+8*i))
	}
	return avalanche(h)
}

// add takes a stripe in, with the secret from offset at on.
func (acc *lanes) add(stripe []byte, at int) {
	_ = stripe[stripeBytes-1]
	for i := range acc {
		v := word(stripe[8*i:])
		k := v ^ key(at+8*i)
		acc[i^1] += v
		acc[i] += k & (1<<32 - 1) * (k >> 32)
	}
}

func (acc *lanes) scramble() {
	for i, v := range acc {
		acc[i] = (v ^ v>>47 ^ key(len(secret)-stripeBytes+8*i)) * prime32a
	}
}

// mix folds sixteen bytes with the secret from offset at on.
func mix(b []byte, at int) uint64 { return fold(word(b)^key(at), word(b[8:])^key(at+8)) }

// fold multiplies to 128 bits and lays the halves on each other.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// avalanche spreads every bit over the whole.
func avalanche(h uint64) uint64 {
	h ^= h >> 37
	h *= primeMixA
	return h ^ h>>32
}

// avalanche64 does it as XXH64 does, for short inputs.
func avalanche64(h uint64) uint64 {
	h ^= h >> 33
	h *= prime64b
	h ^= h >> 29
	h *= prime64c
	return h ^ h>>32
}
