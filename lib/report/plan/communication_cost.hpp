#pragma once

#include "events/records.hpp"
#include "report/text/format.hpp"

// The cost of an all-reduce, and the part of it that a step waits for. docs/explanation/scaling.md
// has the formulas and their sources.

namespace trainctl::report {

/// A link between neighbors of a ring: a message of n bytes takes latency_s + n / bytes_per_s.
struct Link {
  double latency_s = 0;
  double bytes_per_s = 1;
};

inline constexpr const char* kRingFormula =
    "2 (N-1)/N x bytes / bandwidth + 2 (N-1) x latency, for each bucket";

/// Returns the seconds of a ring all-reduce of `bytes`: 2 (N-1) messages of bytes/N. Returns 0 for
/// one rank.
double ring_seconds(int ranks, double bytes, const Link& link);

/// What ranks exchange during or after the backward pass.
enum class SyncKind {
  gradients,              // ddp
  gradients_and_weights,  // zero1: each rank also sends the weights that it updates
  weights                 // local_sgd: once in several steps
};
constexpr std::array<const char*, 3> enum_names(SyncKind) {
  return {"gradients", "gradients and weights", "weights"};
}

/// The step of a single rank, and the data that it exchanges.
struct SyncedStep {
  double step_s = 0;                       // with all batches of an accumulation
  double backward_s = 0;                   // of the last batch
  std::int64_t samples = 0;                // of one rank
  std::vector<std::int64_t> buckets = {};  // bytes, in the order of the all-reduce
  std::int64_t batches = 1;                // per accumulation
  SyncKind exchange = SyncKind::gradients;
  std::int64_t weight_bytes = 0;  // weights that zero1 sends
  std::int64_t every = 1;         // steps per exchange; more than one only for `weights`
};

/// The fastest and the slowest of the timed rounds, in seconds per step.
struct StepRange {
  double low_s = 0;
  double high_s = 0;
};

/// A step that several ranks took together on the cores of this machine.
struct SharedStep {
  int ranks = 2;
  double step_s = 0;     // with all batches of an accumulation
  double exposed_s = 0;  // part of step_s: waits for the all-reduce
  StepRange range;       // of step_s
  int num_threads = 1;   // per rank
};

/// The predicted step of `ranks` ranks.
struct EstimatedStep {
  int ranks = 1;
  double exchange_s = 0;  // of all buckets, and of the weights
  double exposed_s = 0;   // after the last gradient
  double step_s = 0;
  double samples_per_s = 0;                // of all ranks
  double efficiency = 1;                   // weak scaling: the single-rank step / this step
  std::optional<StepRange> measured = {};  // absent: the step is predicted by the formula
};

/// Predicts a step. Buckets are sent one after the other: a bucket starts when its gradients are
/// ready and the previous bucket is done. Gradients become ready during the backward pass in
/// proportion to their bytes. zero1 gathers weights after the step without overlap, which takes
/// half an all-reduce; local_sgd averages weights with a whole all-reduce, which is divided by the
/// number of steps between two of them.
EstimatedStep estimate_step(const SyncedStep& step, const Link& link, int ranks);

/// Parses bytes per second such as "25GB/s", "1.2 GiB", "100Gbit/s"; nullopt if the text is not a
/// positive bandwidth.
std::optional<double> parse_bandwidth(std::string_view text);
/// Parses seconds such as "20us", "1.5 ms", "300ns"; nullopt if the text is not a latency of 0 or
/// more.
std::optional<double> parse_latency(std::string_view text);
/// Returns a text such as "3.1 GB/s".
std::string bandwidth_text(double bytes_per_s);
/// Returns a text such as "23.5 us" or "1 ms".
std::string latency_text(double seconds);

/// The link that fits measured all-reduces.
struct LinkFit {
  Link link;
  double deviation = 0;  // largest relative deviation of the formula from a median
};

/// Fits a + b x bytes to the medians with least squares of the relative deviations; the ring's
/// formula then gives the latency (a / (2 (N-1)) per message) and the bandwidth. Throws
/// Error(unexpected) for invalid measurements: one rank, no size, a time that is not positive.
LinkFit fit_link(const events::LinkMeasured& measured);

/// Returns the table of `doctor --link`, and the fitted link.
std::string link_text(const events::LinkMeasured& measured, const Style& style);
/// Returns the part of doctor's document with schema "trainctl.link/2".
Json link_json(const events::LinkMeasured& measured);

/// Parses the output of `doctor --link --json`; `label` is the file name. Throws Error(config).
Link read_link(const Json& document, const std::string& label);

/// Returns a text such as "2 processes on cpu with gloo".
std::string ranks_text(const events::LinkMeasured& measured);

}  // namespace trainctl::report
