#pragma once

#include "base/json.hpp"
#include "events/records.hpp"
#include "report/plan/communication_cost.hpp"
#include "report/text/format.hpp"

namespace trainctl::report {

/// "  LABEL      text" and a newline: a line of the plan.
std::string plan_fact(const std::string& label, const std::string& text, const Style& style);
/// "1.5 GiB"
std::string bytes_text(std::int64_t bytes);

/// What steps of several ranks would take, by a step of one and a link.
struct PlannedScaling {
  ExchangedStep step;
  Link link;
  std::string link_from;                  // "measured now: 2 processes on cpu with gloo"
  std::string device;                     // that the step was measured on: "cpu with 2 threads"
  std::string backward_from;              // "timed"
  std::vector<ForetoldStep> rows;         // 1, the number that was asked for, 64 and 1,024
  std::optional<SharedStep> shared = {};  // of the number that was asked for; absent: not measured
};

/// The rows for `ranks`, ascending.
std::vector<ForetoldStep> foretell_growth(const ExchangedStep& step, const Link& link, int ranks);

/// Puts the measured step in the place of the one that is foretold for as many ranks.
void use_measured(const SharedStep& shared, const ExchangedStep& alone,
                  std::vector<ForetoldStep>& rows);

/// What has to hold for the rows to be right, a sentence each.
std::vector<std::string> scaling_assumptions(const PlannedScaling& scaling);

/// Table and lines for a terminal.
std::string scaling_text(const PlannedScaling& scaling, const Style& style);
/// Schema "trainctl.scaling/1": `scaling` of the plan's document.
Json scaling_json(const PlannedScaling& scaling);

/// How one split falls to the ranks in an epoch.
struct RankSplit {
  std::string name;  // "train"
  std::int64_t samples = 0;
  std::int64_t batches = 0;     // of each rank
  std::int64_t last_batch = 0;  // samples of it, over all ranks
  std::int64_t last_least = 0;  // of a rank
  std::int64_t last_most = 0;
  std::int64_t idle_ranks = 0;  // without a sample in it
  std::int64_t left_out = 0;    // samples of no batch, by drop_last
};

struct RankBucket {
  std::int64_t parameters = 0;
  std::int64_t bytes = 0;
};

/// A run of so many ranks, as far as one machine can tell.
struct FakeRanks {
  int ranks = 1;
  std::int64_t batch_size = 0;  // of a rank
  std::int64_t accumulate = 1;
  std::int64_t steps_per_epoch = 0;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::vector<RankSplit> splits;
  std::vector<RankBucket> buckets;  // in the order of the exchange; empty: no model was measured
  std::optional<events::Measured> model;
  std::uint64_t loading_bytes = 0;    // of the host, for one rank
  bool shards_optimizer = false;      // distributed.type is zero1
  std::int64_t optimizer_share = 0;   // bytes of the model's optimizer: of the rank with most
  std::vector<std::string> problems;  // what a run would be refused for
  std::vector<std::string> notes;
};

/// Tensors, kernels and program of one rank, in bytes of the device that computes; with the
/// optimizer's state sharded over the ranks, the largest share.
std::int64_t rank_step_bytes(const FakeRanks& fake, bool sharded);

/// Lines for a terminal.
std::string fake_ranks_text(const FakeRanks& fake, const Style& style);
/// Schema "trainctl.fake_ranks/1": `fake_ranks` of the plan's document.
Json fake_ranks_json(const FakeRanks& fake);

}  // namespace trainctl::report
