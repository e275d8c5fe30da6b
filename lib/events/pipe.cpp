#include "events/pipe.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "events/fields.hpp"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>

namespace trainctl::events {
namespace {

// Returns 0 or errno.
int write_bytes(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

EventWriter::EventWriter(int fd) : fd_(fd) { std::signal(SIGPIPE, SIG_IGN); }

void EventWriter::write(const Event& event) {
  std::string line = encode(event);
  line += '\n';
  if (line.size() > kMaxLineBytes) {
    throw Error(
        ErrorKind::unexpected,
        fmt::format(
            "a progress report must have at most {1} bytes, got {0} bytes that begin with '{2}'",
            line.size(), kMaxLineBytes, line.substr(0, 60)));
  }
  const std::lock_guard lock(mutex_);
  if (cut_off_) return;
  const int failure = write_bytes(fd_, line);
  cut_off_ = failure == EPIPE;
  if (failure != 0 && !cut_off_) {
    throw Error(ErrorKind::resource,
                fmt::format("cannot report to the trainctl process that started this rank: {}",
                            std::strerror(failure)));
  }
}

bool EventWriter::is_cut_off() const {
  const std::lock_guard lock(mutex_);
  return cut_off_;
}

LineReader::State LineReader::read_some(int fd, const LineHandler& on_line) {
  std::array<char, 1 << 16> buffer;
  const ssize_t count = ::read(fd, buffer.data(), buffer.size());
  if (count < 0) return errno == EAGAIN || errno == EINTR ? State::empty : State::closed;
  if (count == 0) return State::closed;
  std::string_view fresh(buffer.data(), static_cast<std::size_t>(count));
  for (std::size_t end = fresh.find('\n'); end != std::string_view::npos; end = fresh.find('\n')) {
    if (pending_.size() + end > max_line_bytes_) return State::too_long;
    pending_ += fresh.substr(0, end);
    fresh.remove_prefix(end + 1);
    const std::string line = std::exchange(pending_, {});
    on_line(line);
  }
  if (pending_.size() + fresh.size() > max_line_bytes_) return State::too_long;
  pending_ += fresh;
  return State::more;
}

Json value_of(Phase value) { return phase_name(value); }

Json value_of(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

Json value_of(const Metrics& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values) object[name] = value_of(value);
  return object;
}

void read(const Json& json, bool& value) {
  demand(json.is_boolean(), "true or false");
  value = json.get<bool>();
}

void read(const Json& json, std::int64_t& value) {
  demand(json.is_number_integer(), "an integer");
  demand(!json.is_number_unsigned() || std::in_range<std::int64_t>(json.get<std::uint64_t>()),
         "an integer of 64 bits");
  value = json.get<std::int64_t>();
}

void read(const Json& json, int& value) {
  std::int64_t wide = 0;
  read(json, wide);
  demand(std::in_range<int>(wide), "an integer of 32 bits");
  value = static_cast<int>(wide);
}

void read(const Json& json, std::string& value) {
  demand(json.is_string(), "a string");
  value = json.get<std::string>();
}

void read(const Json& json, double& value) {
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    demand(text == "nan" || text == "inf" || text == "-inf", "a number");
    value = text == "nan" ? std::numeric_limits<double>::quiet_NaN()
                          : std::numeric_limits<double>::infinity();
    if (text == "-inf") value = -value;
    return;
  }
  demand(json.is_number(), "a number");
  value = json.get<double>();
}

void read(const Json& json, Phase& value) {
  demand(json.is_string(), "a phase");
  const auto* const found =
      std::ranges::find(kPhases, json.get_ref<const std::string&>(), phase_name);
  demand(found != kPhases.end(), "a phase");
  value = *found;
}

void read(const Json& json, Metrics& values) {
  demand(json.is_object(), "an object");
  for (const auto& [name, value] : json.items()) read(value, values.emplace_back(name, 0).second);
}

void read(const Json& json, Timing& timing) {
  demand(json.is_object(), "an object");
  Json all = json;
  for (const TimingPhase& phase : kTimingPhases) all.emplace(phase.key, 0.0);
  read_fields(all, timing);
}

namespace {

constexpr std::array kNames{"hello",         "weights_set",   "run_started", "progress",
                            "step_logged",   "epoch_ended",   "table_row",   "checkpoint_saved",
                            "stopped_early", "evaluated",     "warning",     "failed",
                            "finished",      "measured",      "resumed",     "replayed",
                            "rank_epoch",    "link_measured", "gpu_checked", "validated",
                            "layer_norms",   "distribution"};
static_assert(kNames.size() == std::variant_size_v<Event>);

[[noreturn]] void refuse(std::string_view what, std::string_view line) {
  constexpr std::size_t kShown = 160;
  throw Error(ErrorKind::unexpected,
              fmt::format("invalid progress report ({}): '{}'{}", printable(what),
                          printable(line.substr(0, kShown)), line.size() > kShown ? "..." : ""));
}

template <std::size_t Index = 0>
Event event_named(std::string_view name, const Json& json) {
  if constexpr (Index == kNames.size()) {
    throw Mismatch{fmt::format("a known event, got '{}'", name)};
  } else {
    if (name != kNames[Index]) return event_named<Index + 1>(name, json);
    std::variant_alternative_t<Index, Event> record;
    read_fields(json, record);
    return record;
  }
}

}  // namespace

const char* phase_name(Phase phase) {
  constexpr std::array<const char*, kPhases.size()> kPhaseNames{
      "startup", "train", "validate", "checkpoint", "shutdown", "load"};
  const auto index = static_cast<std::size_t>(phase);
  return index < kPhaseNames.size() ? kPhaseNames[index] : "unknown";
}

std::string encode(const Event& event) {
  Json object = Json::object();
  object["event"] = kNames[event.index()];
  std::visit([&](const auto& record) { object.update(value_of(record)); }, event);
  return to_line(object);
}

Event decode(std::string_view line) {
  const Json json = parse_json(line);
  if (json.is_discarded()) refuse("not JSON", line);
  const auto name = json.is_object() ? json.find("event") : json.end();
  if (!json.is_object() || name == json.end() || !name->is_string())
    refuse("the field 'event' is missing", line);
  try {
    return event_named(name->get_ref<const std::string&>(), json);
  } catch (const Mismatch& mismatch) {
    refuse("expected " + mismatch.expected, line);
  }
}

Json to_json(const Timing& timing) { return value_of(timing); }
Json to_json(const std::vector<TensorSummary>& summaries) { return value_of(summaries); }

}  // namespace trainctl::events
