#pragma once

#include "base/json.hpp"
#include "events/records.hpp"
#include "report/text/format.hpp"

// What an all-reduce takes, and what of it a step waits for: docs/explanation/scaling.md has the
// formulas and where they come from.

namespace trainctl::report {

/// A link between neighbors of a ring: a message of n bytes takes latency_s + n / bytes_per_s.
struct Link {
  double latency_s = 0;
  double bytes_per_s = 1;
};

inline constexpr const char* kRingFormula =
    "2 (N-1)/N x bytes / bandwidth + 2 (N-1) x latency, for each bucket";

/// An all-reduce of `bytes` over a ring: 2 (N-1) messages of bytes/N. 0 for one rank.
double ring_seconds(int ranks, double bytes, const Link& link);

/// What ranks exchange beside the backward pass, or after it.
enum class Exchange {
  gradients,              // ddp
  gradients_and_weights,  // zero1: then each rank gives the weights that it updates to all
  weights                 // local_sgd: after every so many steps
};

/// The step of one rank by itself, and what it exchanges.
struct ExchangedStep {
  double step_s = 0;                       // with all batches of an accumulation
  double backward_s = 0;                   // of the last of them
  std::int64_t samples = 0;                // of one rank
  std::vector<std::int64_t> buckets = {};  // bytes, in the order of the exchange
  std::int64_t batches = 1;                // of an accumulation
  Exchange exchange = Exchange::gradients;
  std::int64_t weight_bytes = 0;  // that zero1 sends around
  std::int64_t every = 1;         // steps of an exchange: more than one with `weights` alone
};

/// The shortest and the longest of the rounds in which steps were timed, in seconds of a step.
struct StepRange {
  double low_s = 0;
  double high_s = 0;
};

/// A step that ranks took together on the cores of this machine.
struct SharedStep {
  int ranks = 2;
  double step_s = 0;     // with all batches of an accumulation
  double exposed_s = 0;  // of it: waits for the exchange
  StepRange range;       // of step_s
  int num_threads = 1;   // of each rank
};

/// A step of `ranks` ranks.
struct ForetoldStep {
  int ranks = 1;
  double exchange_s = 0;  // of all buckets, and of the weights
  double exposed_s = 0;   // after the last gradient
  double step_s = 0;
  double samples_per_s = 0;                // of all ranks
  double efficiency = 1;                   // of weak scaling: the step alone, over this one
  std::optional<StepRange> measured = {};  // absent: the step is foretold by the formula
};

/// Bucket after bucket: one leaves when its gradients are there and the one before it has gone. The
/// gradients come up during the backward pass in proportion to their bytes. Weights go round after
/// the step, and nothing covers them: half an all-reduce, whose other half sums; those of local_sgd
/// are averaged, a whole one, and counted by the step.
ForetoldStep foretell(const ExchangedStep& step, const Link& link, int ranks);

/// Bytes a second of "25GB/s", "1.2 GiB", "100Gbit/s"; nothing where the text is none above 0.
std::optional<double> parse_bandwidth(std::string_view text);
/// Seconds of "20us", "1.5 ms", "300ns"; nothing where the text is none of 0 or more.
std::optional<double> parse_latency(std::string_view text);
/// "3.1 GB/s"
std::string bandwidth_text(double bytes_per_s);
/// "23.5 us", "1 ms"
std::string latency_text(double seconds);

/// The link that measured sums tell of.
struct LinkFit {
  Link link;
  double deviation = 0;  // of the ring's formula from a median, the largest, as a share
};

/// Least squares of the relative deviations of a + b x bytes from the medians, from which the
/// ring's formula gives latency (a over 2 (N-1) messages) and bandwidth. Throws Error(unexpected)
/// for measurements that no worker makes: one rank, no size, a time that is not above 0.
LinkFit fit_link(const events::LinkMeasured& measured);

/// The table of `doctor --link`, and what follows from it.
std::string link_text(const events::LinkMeasured& measured, const Style& style);
/// Schema "trainctl.link/1": part of doctor's document.
Json link_json(const events::LinkMeasured& measured);

/// What `doctor --link --json` wrote; `label` is the file. Throws Error(config).
Link read_link(const Json& document, const std::string& label);

/// "2 processes on cpu with gloo"
std::string ranks_text(const events::LinkMeasured& measured);

}  // namespace trainctl::report
