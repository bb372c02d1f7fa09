package geo_test

import (
	"fmt"
	"testing"

	"kevy/internal/command/commandtest"
	"kevy/internal/command/generic"
	"kevy/internal/command/geo"
	"kevy/internal/command/strings"
	"kevy/internal/command/zset"
)

func TestSpecs(t *testing.T) { commandtest.Specs(t, geo.Commands()) }

func TestScripts(t *testing.T) {
	commandtest.Scripts(t, geo.Commands(), zset.Commands(), strings.Commands(), generic.Commands())
}

func TestAllocations(t *testing.T) {
	r := commandtest.NewRunner(geo.Commands())
	for i := range 500 {
		r.Do("GEOADD", "g", fmt.Sprint(float64(i)/100), fmt.Sprint(float64(i)/200), fmt.Sprint("m", i))
	}
	for _, c := range []struct {
		most float64
		args []string
	}{
		{0, []string{"GEODIST", "g", "m1", "m2", "km"}},
		{0, []string{"GEOPOS", "g", "m1", "m2"}},
		{0, []string{"GEOHASH", "g", "m1", "m2"}},
		{2, []string{"GEOADD", "g", "1", "1", "m1"}},
		{40, []string{"GEOSEARCH", "g", "FROMLONLAT", "1", "1", "BYRADIUS", "1000", "km", "WITHDIST", "ASC"}},
	} {
		if n := r.Allocs(c.args...); n > c.most {
			t.Errorf("%q allocates %v times", c.args, n)
		}
	}
}
