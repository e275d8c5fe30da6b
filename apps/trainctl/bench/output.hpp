#pragma once

#include "bench/gate.hpp"
#include "report/compare/bench.hpp"

#include <span>
#include <string>
#include <vector>

namespace trainctl::app {

/// What a bench has found.
struct BenchOutcome {
  std::vector<report::BenchRow> rows;
  std::vector<report::Finding> findings;
  report::Pairing pairing = report::Pairing::interleaved;
  std::vector<std::string> not_compared;  // techniques that the baseline does not have
  std::string budget_note;                // one line; empty: all repeats were made
};

/// Makes the folders of the files that are to be written: known before an hour of runs rather than
/// after it. Throws Error(resource).
void make_output_folders(const BenchFlags& flags);

/// The tables, or the document with --json, on stdout; failures on stderr.
void print_bench(const BenchOutcome& bench, const Json& document, const BenchFlags& flags,
                 const Context& context);

/// --save, --csv, --junit and --html. A bench with rows that failed or were cut short does not
/// replace a file of --save. Throws Error(resource).
void write_bench(const BenchOutcome& bench, const Json& document, const BenchFlags& flags);

}  // namespace trainctl::app
