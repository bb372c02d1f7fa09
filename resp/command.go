package resp

// AppendCommand appends a command as a client sends it: an array of bulk strings.
func AppendCommand[T string | []byte](dst []byte, args ...T) []byte {
	dst = appendHeader(dst, '*', int64(len(args)))
	for _, a := range args {
		dst = appendHeader(dst, '$', int64(len(a)))
		dst = append(append(dst, a...), '\r', '\n')
	}
	return dst
}
