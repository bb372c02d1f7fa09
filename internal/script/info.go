package script

// Counts returns how many libraries and functions there are.
func (f *Family) Counts() (libs, functions int64) {
	return f.libraryCount.Load(), f.functionCount.Load()
}

// LibraryBytes returns what the libraries take beside their code, which counts as
// data.
func (f *Family) LibraryBytes() int64 { return f.libraryBytes.Load() }

// StateBytes returns what the states take in which scripts and functions run, while
// nothing runs.
func (f *Family) StateBytes() (scripts, functions int64) {
	return f.evalBytes.Load(), f.functionsBytes.Load()
}

// CachedScripts returns how many scripts are known and the bytes that they take.
func (f *Family) CachedScripts() (scripts, bytes int) { return f.cache.size() }
