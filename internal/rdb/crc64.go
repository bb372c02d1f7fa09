package rdb

import (
	"encoding/binary"
	"hash/crc64"
)

// jones is the polynomial of Redis's checksum (David T. Jones,
// ad93d23594c935a9), with its bits in the order of package crc64.
var jones = crc64.MakeTable(0x95ac9329ac4bc9b5)

// checksum continues the checksum crc over b. Unlike those of package crc64 it
// begins with 0 and ends as it is.
func checksum(crc uint64, b []byte) uint64 {
	return ^crc64.Update(^crc, jones, b)
}

const checksumBytes = 8

func appendChecksum(dst []byte, crc uint64) []byte {
	return binary.LittleEndian.AppendUint64(dst, crc)
}
