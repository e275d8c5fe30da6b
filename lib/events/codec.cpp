#include "events/codec.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "events/fields.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace trainctl::events {
namespace {

constexpr std::array kNames{
    "hello",     "weights_set",      "run_started",   "progress",  "step_logged", "epoch_ended",
    "table_row", "checkpoint_saved", "stopped_early", "evaluated", "warning",     "failed",
    "finished",  "measured",         "resumed",       "replayed",  "rank_epoch",  "link_measured"};
static_assert(kNames.size() == std::variant_size_v<Event>);

// ---- writing

Json value_of(bool value) { return value; }
Json value_of(int value) { return value; }
Json value_of(std::int64_t value) { return value; }
Json value_of(const std::string& value) { return value; }
Json value_of(Phase value) { return phase_name(value); }

Json value_of(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

Json value_of(const Usage& usage);

template <class T>
Json value_of(const std::optional<T>& value) {
  return value ? value_of(*value) : Json(nullptr);
}

Json value_of(const std::map<std::string, std::string>& values) {
  Json object = Json::object();
  for (const auto& [key, value] : values) object[key] = value;
  return object;
}

Json value_of(const std::vector<std::int64_t>& values) { return values; }
Json value_of(const std::vector<std::string>& values) { return values; }

Json value_of(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(value_of(value));
  return list;
}

Json value_of(const Metrics& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values) object[name] = value_of(value);
  return object;
}

template <class Record>
Json object_of(const Record& record);

Json value_of(const Timing& timing) { return object_of(timing); }
Json value_of(const Usage& usage) { return object_of(usage); }

Json value_of(const std::vector<TensorSummary>& summaries) {
  Json list = Json::array();
  for (const TensorSummary& summary : summaries) list.push_back(object_of(summary));
  return list;
}

template <class Record>
Json object_of(const Record& record) {
  Json object = Json::object();
  each_field(record, [&](const char* name, const auto& value) { object[name] = value_of(value); });
  return object;
}

// ---- reading

[[noreturn]] void refuse(std::string_view what, std::string_view line) {
  constexpr std::size_t kShown = 160;
  throw Error(ErrorKind::unexpected,
              fmt::format("not an event: {}, in '{}'{}", printable(what),
                          printable(line.substr(0, kShown)), line.size() > kShown ? "..." : ""));
}

// Raised inside one value; decode() adds the line.
struct Mismatch {
  std::string expected;
};

void demand(bool holds, const char* expected) {
  if (!holds) throw Mismatch{expected};
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
  for (const Phase phase : kPhases) {
    if (json.get_ref<const std::string&>() == phase_name(phase)) {
      value = phase;
      return;
    }
  }
  throw Mismatch{"a phase"};
}

void read(const Json& json, Usage& usage);

template <class T>
void read(const Json& json, std::optional<T>& value) {
  if (json.is_null()) {
    value.reset();
  } else {
    read(json, value.emplace());
  }
}

void read(const Json& json, std::vector<std::int64_t>& values) {
  demand(json.is_array(), "a list");
  for (const Json& one : json) read(one, values.emplace_back());
}

void read(const Json& json, std::vector<double>& values) {
  demand(json.is_array(), "a list");
  for (const Json& one : json) read(one, values.emplace_back());
}

void read(const Json& json, std::map<std::string, std::string>& values) {
  demand(json.is_object(), "an object");
  for (const auto& [key, value] : json.items()) read(value, values[key]);
}

void read(const Json& json, std::vector<std::string>& values) {
  demand(json.is_array(), "a list");
  for (const Json& value : json) read(value, values.emplace_back());
}

void read(const Json& json, Metrics& values) {
  demand(json.is_object(), "an object");
  for (const auto& [name, value] : json.items()) read(value, values.emplace_back(name, 0).second);
}

template <class Record>
void read_fields(const Json& json, Record& record);

void read(const Json& json, Timing& timing) {
  demand(json.is_object(), "an object");
  read_fields(json, timing);
}

void read(const Json& json, Usage& usage) {
  demand(json.is_object(), "an object");
  read_fields(json, usage);
}

void read(const Json& json, std::vector<TensorSummary>& summaries) {
  demand(json.is_array(), "a list");
  for (const Json& one : json) {
    demand(one.is_object(), "a list of objects");
    read_fields(one, summaries.emplace_back());
  }
}

template <class T>
constexpr bool kMayBeAbsent = false;
template <class T>
constexpr bool kMayBeAbsent<std::optional<T>> = true;

/// An optional field may be missing: an earlier version did not know it.
template <class Record>
void read_fields(const Json& json, Record& record) {
  each_field(record, [&](const char* name, auto& value) {
    const auto found = json.find(name);
    if (found == json.end()) {
      if (kMayBeAbsent<std::remove_cvref_t<decltype(value)>>) return;
      throw Mismatch{fmt::format("a field '{}'", name)};
    }
    try {
      read(*found, value);
    } catch (const Mismatch& mismatch) {
      throw Mismatch{fmt::format("{} in '{}'", mismatch.expected, name)};
    }
  });
}

template <std::size_t Index = 0>
Event event_named(std::string_view name, const Json& json) {
  if constexpr (Index == kNames.size()) {
    throw Mismatch{fmt::format("an event that is known, not '{}'", name)};
  } else {
    if (name != kNames[Index]) return event_named<Index + 1>(name, json);
    std::variant_alternative_t<Index, Event> record;
    read_fields(json, record);
    return record;
  }
}

}  // namespace

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::startup: return "startup";
    case Phase::train: return "train";
    case Phase::validate: return "validate";
    case Phase::checkpoint: return "checkpoint";
    case Phase::shutdown: return "shutdown";
    case Phase::load: return "load";
  }
  return "unknown";
}

std::string encode(const Event& event) {
  Json object = Json::object();
  object["event"] = kNames[event.index()];
  std::visit([&](const auto& record) { object.update(object_of(record)); }, event);
  return to_line(object);
}

Event decode(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) refuse("it is not JSON", line);
  const auto name = json.is_object() ? json.find("event") : json.end();
  if (!json.is_object() || name == json.end() || !name->is_string())
    refuse("it has no 'event'", line);
  try {
    return event_named(name->get_ref<const std::string&>(), json);
  } catch (const Mismatch& mismatch) {
    refuse("expected " + mismatch.expected, line);
  }
}

Json to_json(const Timing& timing) { return value_of(timing); }
Json to_json(const Metrics& metrics) { return value_of(metrics); }
Json to_json(const std::vector<TensorSummary>& summaries) { return value_of(summaries); }

}  // namespace trainctl::events
