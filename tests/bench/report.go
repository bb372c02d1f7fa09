package main

import (
	"fmt"
	"io"
	"slices"
)

// series is what several runs of one load gave.
type series struct{ rates, cpuMicros []float64 }

func (s *series) add(m measurement) {
	s.rates = append(s.rates, m.commandsPerSecond)
	s.cpuMicros = append(s.cpuMicros, m.cpuMicros)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// spread prints the median, and the lowest and highest where there are several.
func spread(format string, values []float64) string {
	text := fmt.Sprintf(format, median(values))
	if len(values) > 1 {
		text += fmt.Sprintf(" ("+format+"–"+format+")", slices.Min(values), slices.Max(values))
	}
	return text
}

func row(out io.Writer, name, format string, a, b []float64) {
	fmt.Fprintf(out, "%-34s %21s %21s %7.2f\n", name, spread(format, a), spread(format, b), median(a)/median(b))
}
