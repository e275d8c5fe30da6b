#pragma once

#include "base/json.hpp"
#include "report/compare/statistics.hpp"
#include "report/text/format.hpp"

#include <array>
#include <cstdint>

// What `trainctl tune` has found, and how it is told: plain values, filled in by study::tune().

namespace trainctl::report {

/// One key of the experiment file with another value; both as YAML.
struct TuneChange {
  std::string key;
  std::string before;
  std::string value;

  bool operator==(const TuneChange&) const = default;
};
using TuneChanges = std::vector<TuneChange>;

/// How a change that was tried came out. unclear: it looked faster, but the interval does not
/// exclude that it is not; dropped: it was accepted, and did not hold in the last proof.
enum class Ruling { accepted, no_gain, unclear, losses_differ, batches_differ, failed, dropped };
constexpr std::array<const char*, 7> enum_names(Ruling) {
  return {"accepted", "no_gain", "unclear", "losses_differ", "batches_differ", "failed", "dropped"};
}

struct TuneTry {
  TuneChange change;
  std::string reason;  // why it was tried
  Ruling ruling = Ruling::no_gain;
  Speedup gain;        // over what was best until then
  std::string losses;  // "same", "within 1e-06", "differ", "not compared", "?"
  std::string why;     // of the ruling: one sentence
};

/// A key that was not tried, and why; without a value where none of it could be.
struct TuneLeftOut {
  std::string key;
  std::string value;
  std::string why;
};

/// Where the time of a run went, as report::Bottleneck tells.
struct TuneVerdict {
  std::string name = "balanced";  // name_of(Limit)
  double share = 0;
  double headroom = 1;  // wall time over that without all waits and overhead
  std::string advice;
  std::string setting = {};  // that the verdict proposes; empty: none
  std::string cause = {};    // of its rule: "few_workers"; empty: not known
  double taken = 0;          // of the cores' time, by other processes; 0: nothing was held up
};

/// How the runs were that all was compared with.
struct TuneBaseline {
  double samples_per_s = 0;  // of steady epochs
  double run_s = 0;          // one run with its start-up
  std::int64_t batches = 0;  // of an epoch of these runs
  double part = 1;           // of an epoch of the experiment
  int epochs = 0;
  int num_threads = 0;
  int num_workers = 0;
  std::string data_digest;
};

/// An accepted change, and what it gave when it was.
struct TunePatchEntry {
  TuneChange change;
  Speedup gain;
  std::string reason;
};

/// The changes that were open at the end of the budget.
struct TuneUndecided {
  std::vector<std::string> changes;   // "key=value": tried, and neither accepted nor ruled out
  std::vector<std::string> untested;  // "key=value": not tried at all
  bool is_noise = false;              // noise left them open, and not only the budget
  double more_s = 0;                  // the time beyond the budget that is likely to decide all
};

/// machine_busy: no change helped, and other processes took the cores during a run. failed: a run
/// that others are compared with did, after the first.
enum class TuneEnd { nothing_to_fix, nothing_left, machine_busy, budget, stopped, failed };
constexpr std::array<const char*, 6> enum_names(TuneEnd) {
  return {"nothing_to_fix", "nothing_left", "machine_busy", "budget", "stopped", "failed"};
}

struct TuneReport {
  std::string config;
  std::vector<std::string> overrides;  // as typed
  double budget_s = 0;
  double used_s = 0;
  int repeats = 0;
  double tolerance = 0;
  TuneBaseline baseline;
  TuneVerdict before;
  TuneVerdict after;  // of the last accepted change; `before` where there is none
  std::vector<TuneTry> tried;
  std::vector<TuneLeftOut> left_out;
  std::vector<std::string> advice;  // what no run was made for
  std::vector<TunePatchEntry> patch;
  std::optional<Speedup> gain;  // of the whole patch over the original; absent: it was not proved
  std::optional<TuneUndecided> undecided;
  TuneEnd end = TuneEnd::nothing_left;
  std::string ended;  // why, in words
  int exit_code = 0;
};

/// "about 3 more minutes", rounded up; from two hours on "about 3 more hours".
std::string more_time_text(double seconds);

/// The command lines that go with a report.
struct TuneCommands {
  std::string run;    // with the patch; empty: there is none
  std::string check;  // measures its gain again; empty: there is none
};

/// Verdict, table of what was tried, what was left out, patch, commands.
std::string tune_text(const TuneReport& report, const TuneCommands& commands, const Style& style);
/// Schema "trainctl.tune/1".
Json tune_document(const TuneReport& report, const TuneCommands& commands);

/// The changes as an experiment file that others extend, its comments telling gain and evidence;
/// `{}` where there are none.
std::string patch_text(const TuneReport& report, const TuneCommands& commands);

}  // namespace trainctl::report
