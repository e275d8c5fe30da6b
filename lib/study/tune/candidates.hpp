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

/// The choices of a run and the properties of its machine on which candidates depend.
struct TuneFacts {
  int num_workers = 0;
  int prefetch_factor = 0;
  int num_threads = 1;
  bool channels_last = false;
  int ranks = 1;
  int cores = 1;  // per rank on this machine
  bool on_gpu = false;
  double cpu_percent = 0;          // of one core, for the first rank; 0: unknown
  std::int64_t train_samples = 0;  // 0: unknown
  double slowest_delay = 0;      // delay of the slowest rank as a fraction of the median step time
  std::string environment = {};  // a variable that slows runs down: "OMP_WAIT_POLICY=active"
};

/// Returns the keys that are tried only if --allow names them, because they change the training or
/// what is stored of it. The last component of each key is enough.
const std::vector<std::string>& keys_to_allow();
/// Parses a list of keys such as "batch_size,precision". Throws Error(config) for any other key.
std::set<std::string> allowed_keys(std::string_view list);

/// The inputs of tune_candidates().
struct TuneSituation {
  spec::Experiment experiment;  // includes the accepted changes
  report::TuneVerdict verdict;
  TuneFacts facts;
  std::string no_capture;           // why steps cannot be recorded as CUDA graphs; empty: they can
  bool whole_epochs = true;         // the compared runs train whole epochs
  std::set<std::string> allowed{};  // keys from --allow
};

/// The effect that a change may have on the losses. same: they stay identical; near: sums are
/// computed in another order, so the tolerance applies; other: it is a different training, and
/// losses are not compared.
enum class LossRule { same, near, other };

/// A change that may help, and why.
struct TuneCandidate {
  report::TuneChange change;
  std::string reason;
  LossRule rule = LossRule::same;
};

/// The most promising candidate comes first; neighbors of a value come before values further away.
struct TuneCandidates {
  std::vector<TuneCandidate> tries;
  std::vector<report::UntriedSetting> untried;
  std::vector<std::string> advice;
};

/// Applies the table of rules in docs/reference/tune.md: the verdict and its cause select the keys,
/// the current values select the new values, and the verdict's own suggestion comes first. Does not
/// check whether the experiment accepts the values.
TuneCandidates tune_candidates(const TuneSituation& situation);

/// Returns whether one rank keeps the others waiting, which no setting can fix.
bool is_slow_rank(const report::TuneVerdict& verdict);

/// Returns the rule for a key whose values may change the losses; `same` for any other key.
LossRule loss_rule_of(std::string_view key);
/// Returns whether the key configures validation or saving, which the short runs otherwise leave
/// out.
bool is_interval_key(std::string_view key);

/// Returns the setting that the verdict itself suggests, as a candidate; nullopt if the verdict
/// suggests nothing that tune may try. `found` are the candidates of the table of rules.
std::optional<TuneCandidate> suggested_candidate(const TuneSituation& now,
                                                 const TuneCandidates& found);

}  // namespace trainctl::study
