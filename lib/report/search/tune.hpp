#pragma once

#include "report/text/format.hpp"

#include <array>
#include <cstdint>

// The results of `trainctl tune` and their output: plain values that study::tune() fills in.

namespace trainctl::report {

/// A change of one key of the experiment file; both values are YAML.
struct TuneChange {
  std::string key;
  std::string before;
  std::string value;

  bool operator==(const TuneChange&) const = default;
};
using TuneChanges = std::vector<TuneChange>;

/// The result of a change. unclear: it seemed faster, but the interval includes no gain; dropped:
/// it was accepted, but the final comparison did not confirm it.
enum class TuneDecision {
  accepted,
  no_gain,
  unclear,
  losses_differ,
  batches_differ,
  failed,
  dropped
};
constexpr std::array<const char*, 7> enum_names(TuneDecision) {
  return {"accepted", "no_gain", "unclear", "losses_differ", "batches_differ", "failed", "dropped"};
}

/// A change that was tried, and its result.
struct TuneTrial {
  TuneChange change;
  std::string reason;  // why it was tried
  TuneDecision ruling = TuneDecision::no_gain;
  Speedup gain;        // over the best settings until then
  std::string losses;  // "same", "within 1e-06", "differ", "not compared", "?"
  std::string why;     // one sentence about the ruling
};

/// A key that was not tried, and why; `value` is empty if no value could be tried.
struct UntriedSetting {
  std::string key;
  std::string value;
  std::string why;
};

/// The bottleneck of a run, from report::Bottleneck.
struct TuneVerdict {
  std::string name = "balanced";  // name_of(BottleneckKind)
  double share = 0;
  double headroom = 1;  // wall time / wall time without all waits and overhead
  std::string advice;
  std::string setting = {};  // suggested by the verdict; empty: none
  std::string cause = {};    // of its rule: "few_workers"; empty: unknown
  double taken = 0;          // fraction of the cores' time used by other processes; 0: no delay
};

/// The measurements of the runs that everything was compared with.
struct TuneBaseline {
  double samples_per_s = 0;  // in the steady epochs
  double run_s = 0;          // one run with its startup
  std::int64_t batches = 0;  // batches per epoch of these runs
  double part = 1;           // fraction of an epoch of the experiment
  int epochs = 0;
  int num_threads = 0;
  int num_workers = 0;
  std::string data_digest;
};

/// An accepted change and its gain at that time.
struct TunePatchEntry {
  TuneChange change;
  Speedup gain;
  std::string reason;
};

/// The undecided changes at the end of the budget.
struct TuneUndecided {
  std::vector<std::string> changes;   // "key=value": tried, neither accepted nor rejected
  std::vector<std::string> untested;  // "key=value": not tried
  bool is_noise = false;              // undecided because of noise, not only the budget
  double more_s = 0;                  // likely time beyond the budget to decide all
};

/// machine_busy: no change helped, and other processes used the cores during a run. failed: a later
/// run of the base failed.
enum class TuneStopReason { nothing_to_fix, nothing_left, machine_busy, budget, stopped, failed };
constexpr std::array<const char*, 6> enum_names(TuneStopReason) {
  return {"nothing_to_fix", "nothing_left", "machine_busy", "budget", "stopped", "failed"};
}

/// The result of a search.
struct TuneReport {
  std::string config;
  std::vector<std::string> overrides;  // as typed
  double budget_s = 0;
  double used_s = 0;
  int repeats = 0;
  double tolerance = 0;
  TuneBaseline baseline;
  TuneVerdict before;
  TuneVerdict after;  // of the last accepted change; `before` if there was none
  std::vector<TuneTrial> tried;
  std::vector<UntriedSetting> untried;
  std::vector<std::string> advice;  // suggestions that were not run
  std::vector<TunePatchEntry> patch;
  std::optional<Speedup> gain;  // of the whole patch over the original; absent: not measured
  std::optional<TuneUndecided> undecided;
  TuneStopReason end = TuneStopReason::nothing_left;
  std::string ended;  // why, in words
  int exit_code = 0;
};

/// Returns a text such as "about 3 more minutes", rounded up; from two hours on "about 3 more
/// hours".
std::string more_time_text(double seconds);

/// Returns the line of bottleneck_text(), with the effect of all waits and of other processes.
std::string text_of(const TuneVerdict& verdict);

/// The command lines that a report suggests.
struct TuneCommands {
  std::string run;    // with the patch; empty: no patch
  std::string check;  // measures its gain again; empty: no patch
};

/// Returns the verdict, a table of the tried changes, the keys that were left out, the patch and
/// the commands.
std::string tune_text(const TuneReport& report, const TuneCommands& commands, const Style& style);
/// Returns a document with schema "trainctl.tune/2".
Json tune_document(const TuneReport& report, const TuneCommands& commands);

/// Returns the changes as an experiment file that others can extend, with comments about gain and
/// evidence; `{}` if there are no changes.
std::string patch_text(const TuneReport& report, const TuneCommands& commands);

}  // namespace trainctl::report
