#pragma once

#include "report/plan/communication_cost.hpp"

namespace trainctl::report {

/// Returns a line of the plan: "  LABEL      text" and a newline.
std::string plan_fact(const std::string& label, const std::string& text, const Style& style);

/// The predicted steps of several ranks, from a step of one rank and a link.
struct PlannedScaling {
  SyncedStep step;
  Link link;
  std::string link_from;                  // "measured now: 2 processes on cpu with gloo"
  std::string device;                     // the device of the measured step: "cpu with 2 threads"
  std::string backward_from;              // "timed"
  std::vector<EstimatedStep> rows;        // for 1, the requested number, 64 and 1,024 ranks
  std::optional<SharedStep> shared = {};  // for the requested number; absent: not measured
};

/// Returns the rows for `ranks`, in ascending order.
std::vector<EstimatedStep> estimate_scaling(const SyncedStep& step, const Link& link, int ranks);

/// Replaces the predicted step for the same number of ranks by the measured one.
void use_measured(const SharedStep& shared, const SyncedStep& alone,
                  std::vector<EstimatedStep>& rows);

/// Returns the assumptions of the rows, one sentence each.
std::vector<std::string> scaling_assumptions(const PlannedScaling& scaling);

/// Returns a table and lines for a terminal.
std::string scaling_text(const PlannedScaling& scaling, const Style& style);
/// Returns `scaling` of the plan's document, schema "trainctl.scaling/2".
Json scaling_json(const PlannedScaling& scaling);

/// How one split is divided among the ranks in an epoch.
struct RankSplit {
  std::string name;  // "train"
  std::int64_t samples = 0;
  std::int64_t batches = 0;     // per rank
  std::int64_t last_batch = 0;  // samples in it, over all ranks
  std::int64_t last_least = 0;  // smallest number of samples per rank
  std::int64_t last_most = 0;
  std::int64_t idle_ranks = 0;  // ranks without a sample in the last batch
  std::int64_t dropped = 0;     // samples that drop_last leaves out
};

struct RankBucket {
  std::int64_t parameters = 0;
  std::int64_t bytes = 0;
};

/// The properties of a run with that many ranks that one machine can compute.
struct FakeRanks {
  int ranks = 1;
  std::int64_t batch_size = 0;  // per rank
  std::int64_t accumulate = 1;
  std::int64_t steps_per_epoch = 0;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::vector<RankSplit> splits;
  std::vector<RankBucket> buckets;  // in the order of the all-reduce; empty: no model was measured
  std::optional<events::Measured> model;
  std::uint64_t loading_bytes = 0;    // host memory for one rank
  bool shards_optimizer = false;      // distributed.type is zero1
  std::int64_t optimizer_share = 0;   // optimizer bytes of the rank with the largest share
  std::vector<std::string> problems;  // reasons for which a run would be rejected
  std::vector<std::string> notes;
};

/// Returns the device memory of tensors, kernels and program of one rank in bytes; if `sharded`,
/// with the largest share of the optimizer's state.
std::int64_t rank_step_bytes(const FakeRanks& fake, bool sharded);

/// Returns lines for a terminal.
std::string fake_ranks_text(const FakeRanks& fake, const Style& style);
/// Returns `fake_ranks` of the plan's document, schema "trainctl.fake_ranks/2".
Json fake_ranks_json(const FakeRanks& fake);

}  // namespace trainctl::report
