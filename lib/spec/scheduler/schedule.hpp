#pragma once

#include "config/schema/describe.hpp"
#include "config/schema/schema.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace trainctl::spec::scheduler {

enum class Interval { epoch, step };
constexpr std::array<const char*, 2> enum_names(Interval) { return {"epoch", "step"}; }

/// "5 epochs", "1 step".
std::string counted(std::int64_t count, Interval interval);

/// The length of a warm-up. In YAML `500` counts the scheduler's intervals, `5ep` epochs, and a
/// number with a point (`0.05`) is a fraction of the run.
struct WarmupLength {
  enum class Unit { intervals, epochs, run };

  double value = 0;
  Unit unit = Unit::intervals;

  bool operator==(const WarmupLength&) const = default;
};

/// What a schedule knows of the run that it is laid over.
struct ScheduledRun {
  Interval interval = Interval::epoch;         // what the schedule counts
  std::int64_t steps_per_epoch = 0;            // 0: not known
  std::optional<std::int64_t> intervals = {};  // of the whole run; absent: not known
};

/// The length in the intervals of the schedule; nothing where the run does not tell it. Above 0 it
/// is at least one interval.
std::optional<std::int64_t> intervals_of(const WarmupLength& length, const ScheduledRun& run);

/// What every scheduler has: a linear warm-up before its own curve.
struct Warmup {
  WarmupLength warmup;
  double warmup_start_factor = 0.1;
  Interval interval = Interval::epoch;

  static void describe(config::Describe<Warmup>& options);
};

/// The warm-up of a scheduler; null where it has none.
const Warmup* warmup_of(const config::Stage& stage);

}  // namespace trainctl::spec::scheduler

template <>
struct trainctl::config::Codec<trainctl::spec::scheduler::WarmupLength> {
  static FieldType type();
  static void read(Reader& reader, const Node& node, const Field& field,
                   spec::scheduler::WarmupLength& out);
  static Node write(const spec::scheduler::WarmupLength& length);
};

namespace trainctl::spec {

/// The momentum at which a scheduler that cycles it starts, or one in a sequence; nothing where
/// none does.
std::optional<double> scheduled_momentum(const config::Stage& stage);

/// The optimizer that runs under the scheduler: one whose own momentum is 0 gets that of a
/// scheduler which cycles it, as PyTorch's OneCycleLR sets it, so that it keeps the buffers.
config::Stage with_scheduled_momentum(const config::Stage& stage,
                                      const config::Stage& scheduler_stage);

}  // namespace trainctl::spec
