#pragma once

#include "report/search/tune.hpp"
#include "spec/experiment/experiment.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::study {

/// What a run chose and what its machine is, as far as candidates depend on it.
struct TuneFacts {
  int num_workers = 0;
  int prefetch_factor = 0;
  int num_threads = 1;
  bool channels_last = false;
  int ranks = 1;
  int cores = 1;  // for each rank here
  bool on_gpu = false;
  double cpu_percent = 0;          // of one core, by the first rank; 0: not known
  std::int64_t train_samples = 0;  // 0: not known
  double behind = 0;               // of the slowest rank, as a share of the median
  std::string environment = {};    // a variable that slows runs down, "OMP_WAIT_POLICY=active"
};

/// Keys that are tried only where they are named, since they change the training or what is kept of
/// it. The last words of each will do.
const std::vector<std::string>& keys_to_allow();
/// The keys of a list as "batch_size,precision". Throws Error(config) for any other.
std::set<std::string> allowed_keys(std::string_view list);

/// What candidates follow from.
struct TuneSituation {
  spec::Experiment experiment;  // with what has been accepted
  report::TuneVerdict verdict;
  TuneFacts facts;
  std::string no_capture;           // why no step can be recorded as a CUDA graph; empty: it can
  bool whole_epochs = true;         // of the runs that are compared
  std::set<std::string> allowed{};  // by --allow
};

/// What a change may do to the losses. same: not one bit; near: sums in another order, so that the
/// tolerance decides; other: it is another training, and losses are not compared.
enum class LossRule { same, near, other };

struct TuneCandidate {
  report::TuneChange change;
  std::string reason;
  LossRule rule = LossRule::same;
};

/// The likeliest gain first; the neighbors of a value before those further off.
struct TuneCandidates {
  std::vector<TuneCandidate> tries;
  std::vector<report::TuneLeftOut> left_out;
  std::vector<std::string> advice;
};

/// By the table of rules, which docs/reference/tune.md shows: the verdict and its cause tell which
/// keys, and the values that they have now tell which values; what the verdict proposes comes
/// first. Nothing here asks whether the experiment file accepts them.
TuneCandidates tune_candidates(const TuneSituation& situation);

/// Whether one rank keeps the others waiting, which no key mends.
bool is_slow_rank(const report::TuneVerdict& verdict);

/// Of keys whose values may change the losses; same for any other.
LossRule loss_rule_of(std::string_view key);
/// Validation or saving, which runs leave out otherwise.
bool is_cadence(std::string_view key);

/// The setting that the verdict proposes itself, as a candidate; nothing where it is none that tune
/// may try, or there is none. `found`: what the table of rules offers.
std::optional<TuneCandidate> proposed(const TuneSituation& now, const TuneCandidates& found);

}  // namespace trainctl::study
