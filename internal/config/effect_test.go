package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestEffectIsTrue holds the registry's claims against the code: what is there
// for compatibility only has no field, and something outside this package reads
// the field of a setting that is said to be applied.
func TestEffectIsTrue(t *testing.T) {
	c := New()
	fields := make(map[*Setting]string)
	for structure, i := reflect.ValueOf(c).Elem(), 0; i < structure.NumField(); i++ {
		if !structure.Type().Field(i).IsExported() {
			continue
		}
		field, ok := structure.Field(i).Addr().Interface().(Field)
		if !ok {
			t.Errorf("%s is no setting", structure.Type().Field(i).Name)
			continue
		}
		fields[field.setting()] = structure.Type().Field(i).Name
	}
	if len(fields) < 30 {
		t.Errorf("Config has %d fields", len(fields))
	}
	read := fieldsRead(t)
	for _, s := range c.Settings() {
		name := fields[s]
		if (name != "") == strings.HasPrefix(s.Group, "Redis: ") {
			t.Errorf("%s stands in group %q and has the field %q", s.Name, s.Group, name)
		}
		if s.Effect == Applied && !read[name] {
			t.Errorf("nothing reads %s, the field of %s", name, s.Name)
		}
	}
}

// fieldsRead collects X of every cfg.X.Load(…), cfg.X.String() and &cfg.X in
// the tree outside this package, tests aside.
func fieldsRead(t *testing.T) map[string]bool {
	read, files := make(map[string]bool), 0
	selected := func(e ast.Expr) string {
		if sel, ok := e.(*ast.SelectorExpr); ok {
			return sel.Sel.Name
		}
		return ""
	}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && filepath.Base(path) == "config" {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if n.Sel.Name == "Load" || n.Sel.Name == "String" {
					read[selected(n.X)] = true
				}
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					read[selected(n.X)] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Errorf("%d files were read", files)
	}
	return read
}
