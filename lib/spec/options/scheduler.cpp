#include "spec/options/scheduler.hpp"

#include "base/numbers.hpp"
#include "config/wording.hpp"
#include "spec/options/base_of.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trainctl::spec::scheduler {

std::string counted(std::int64_t count, Interval interval) {
  return fmt::format("{} {}{}", count, interval == Interval::epoch ? "epoch" : "step",
                     plural(count));
}

std::optional<std::int64_t> intervals_of(const WarmupLength& length, const ScheduledRun& run) {
  double intervals = length.value;
  if (length.unit == WarmupLength::Unit::run) {
    if (!run.intervals) return std::nullopt;
    intervals *= static_cast<double>(*run.intervals);
  } else if (length.unit == WarmupLength::Unit::epochs && run.interval == Interval::step) {
    if (run.steps_per_epoch == 0) return std::nullopt;
    intervals *= static_cast<double>(run.steps_per_epoch);
  }
  const std::int64_t rounded = std::llround(intervals);
  return length.value > 0 ? std::max<std::int64_t>(rounded, 1) : 0;
}

const Warmup* warmup_of(const config::Stage& stage) { return base_of<Warmup>(stage); }

}  // namespace trainctl::spec::scheduler

namespace trainctl::config {
namespace {

using Length = spec::scheduler::WarmupLength;

constexpr std::string_view kEpochs = "ep";
constexpr std::int64_t kMostIntervals = 1'000'000'000'000;
constexpr double kMostEpochs = 1e6;  // the maximum of max_epochs
constexpr auto kWanted =
    "a count in the unit of 'interval' (500), a number of epochs (5ep) or a fraction of the run "
    "(0.05)";

/// Returns the number before "ep"; nullopt if the text has another form.
std::optional<double> epochs_in(std::string_view text) {
  if (!text.ends_with(kEpochs)) return std::nullopt;
  text.remove_suffix(kEpochs.size());
  if (text.empty() || text.find_first_not_of("0123456789.") != std::string_view::npos)
    return std::nullopt;
  const auto value = parse_number<double>(text);
  return value && *value <= kMostEpochs ? value : std::nullopt;
}

}  // namespace

FieldType Codec<Length>::type() { return {.type = ValueType::number, .choices = {"5ep"}}; }

void Codec<Length>::read(Reader& reader, const Node& node, const Field& field, Length& out) {
  const bool is_scalar = node.type == Node::Type::scalar;
  if (const auto epochs = is_scalar ? epochs_in(node.text) : std::nullopt) {
    out = {*epochs, Length::Unit::epochs};
    return;
  }
  const bool is_text =
      is_scalar && node.text.find_first_not_of("0123456789.eE+-_") != std::string::npos;
  if (is_text)
    return reader.diagnostics().error(
        node.position,
        fmt::format("'{}' must be {}, got {}", field.key, kWanted, quote(node.text)));
  const bool has_point = is_scalar && node.text.find_first_of(".eE") != std::string::npos;
  if (!has_point) {
    std::int64_t intervals = 0;
    if (reader.integer(node, field, 0, kMostIntervals, intervals))
      out = {static_cast<double>(intervals), Length::Unit::intervals};
    return;
  }
  double fraction = 0;
  if (!reader.number(node, field, fraction)) return;
  if (fraction >= 1)
    return reader.diagnostics().error(
        node.position,
        fmt::format(
            "'{}' with a decimal point is a fraction of the run and must be below 1, got {}",
            field.key, quote(node.text)),
        fmt::format("write {0:.0f} to count in the unit of 'interval' (epoch or step), {0:.0f}ep "
                    "for epochs",
                    fraction));
  out = {fraction, Length::Unit::run};
}

Node Codec<Length>::write(const Length& length) {
  switch (length.unit) {
    case Length::Unit::epochs: return Node::scalar(number_text(length.value).append(kEpochs));
    case Length::Unit::run: {
      const std::string text = number_text(length.value);
      return Node::scalar(text.find_first_of(".e") == std::string::npos ? text + ".0" : text);
    }
    case Length::Unit::intervals: break;
  }
  return Node::scalar(std::to_string(static_cast<std::int64_t>(length.value)));
}

}  // namespace trainctl::config

namespace trainctl::spec {
namespace {

template <class Options>
void set_missing_momentum(config::Stage& stage, double momentum) {
  const auto* found = stage.get_if<Options>();
  if (found == nullptr || found->momentum != 0) return;
  Options options = *found;
  options.momentum = momentum;
  stage.options = std::make_shared<const Options>(std::move(options));
}

}  // namespace

std::optional<double> scheduled_momentum(const config::Stage& stage) {
  if (const auto* cycle = stage.get_if<scheduler::OneCycleLr>())
    return cycle->cycle_momentum ? std::optional(cycle->max_momentum) : std::nullopt;
  const auto* sequence = stage.get_if<scheduler::SequentialLr>();
  if (sequence == nullptr) return std::nullopt;
  for (const config::Stage& one : sequence->schedulers) {
    if (const auto momentum = scheduled_momentum(one)) return momentum;
  }
  return std::nullopt;
}

config::Stage with_scheduled_momentum(const config::Stage& stage,
                                      const config::Stage& scheduler_stage) {
  config::Stage changed = stage;
  if (const std::optional<double> momentum = scheduled_momentum(scheduler_stage)) {
    set_missing_momentum<optimizer::Sgd>(changed, *momentum);
    set_missing_momentum<optimizer::Rmsprop>(changed, *momentum);
  }
  return changed;
}

}  // namespace trainctl::spec
