#include "report/compare/baseline.hpp"

#include "base/hash.hpp"
#include "report/record/run_files.hpp"

#include <limits>

namespace trainctl::report {
namespace {

constexpr const char* kSchema = "trainctl.bench/2";
constexpr double kBytesPerGib = 1024.0 * 1024 * 1024;
constexpr std::array kMachineKeys{"cpu", "cores", "memory_gib", "gpus"};

/// Reads a document from an untrusted source and checks its types.
class BaselineReader {
 public:
  explicit BaselineReader(const std::string& path) : path_(printable(path)) {}

  template <class... Values>
  [[noreturn]] void fail(fmt::format_string<Values...> format, Values&&... values) const {
    throw Error(ErrorKind::config,
                fmt::format("the baseline {} {}", path_,
                            fmt::format(format, std::forward<Values>(values)...)));
  }

  [[nodiscard]] const Json& member(const Json& object, const char* key,
                                   const std::string& where) const {
    if (!object.is_object()) fail("is not a saved benchmark: {} must be an object", where);
    const auto found = object.find(key);
    if (found == object.end()) fail("is not a saved benchmark: {} has no '{}'", where, key);
    return *found;
  }

  [[nodiscard]] std::string text(const Json& object, const char* key,
                                 const std::string& where) const {
    const Json& value = member(object, key, where);
    if (!value.is_string())
      fail("is not a saved benchmark: '{}' of {} must be a string", key, where);
    return value.get<std::string>();
  }

  [[nodiscard]] const Json& list(const Json& object, const char* key,
                                 const std::string& where) const {
    const Json& value = member(object, key, where);
    if (!value.is_array()) fail("is not a saved benchmark: '{}' of {} must be a list", key, where);
    return value;
  }

  /// Reads a number; numbers that are not finite are strings.
  [[nodiscard]] double number(const Json& value, const std::string& where) const {
    if (value.is_number()) return value.get<double>();
    if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (value == "-inf") return -std::numeric_limits<double>::infinity();
    fail("is not a saved benchmark: {} must be a number", where);
  }

 private:
  std::string path_;
};

std::optional<double> optional_number(const BaselineReader& reader, const Json& trial,
                                      const char* key, const std::string& where) {
  const auto found = trial.find(key);
  if (found == trial.end() || found->is_null()) return std::nullopt;
  return reader.number(*found, fmt::format("'{}' of {}", key, where));
}

std::map<std::string, bool> read_layouts(const BaselineReader& reader, const Json& document) {
  std::map<std::string, bool> layouts;
  const auto found = document.find("channels_last");
  if (found == document.end() || found->is_null()) return layouts;
  if (!found->is_object())
    reader.fail("is not a saved benchmark: 'channels_last' must be an object");
  for (const auto& [inputs, value] : found->items()) {
    if (!value.is_boolean())
      reader.fail("is not a saved benchmark: '{}' of 'channels_last' must be true or false",
                  printable(inputs));
    layouts[inputs] = value.get<bool>();
  }
  return layouts;
}

Trial read_trial(const BaselineReader& reader, const Json& json, const std::string& where) {
  const auto needed = [&](const char* key) {
    return reader.number(reader.member(json, key, where), fmt::format("'{}' of {}", key, where));
  };
  Trial trial{.total_s = needed("total_s"), .startup_s = needed("startup_s")};
  trial.first_batch_s = needed("first_batch_s");
  trial.samples_per_s = needed("samples_per_s");
  for (const Json& seconds : reader.list(json, "epoch_s", where))
    trial.epoch_s.push_back(reader.number(seconds, "a number in 'epoch_s' of " + where));
  trial.rss_mb = optional_number(reader, json, "rss_mb", where).value_or(0);
  trial.gpu_mem_mb = optional_number(reader, json, "gpu_mem_mb", where);
  trial.exposed_s = optional_number(reader, json, "exposed_s", where);
  const Json& metrics = reader.member(json, "metrics", where);
  if (!metrics.is_object())
    reader.fail("is not a saved benchmark: 'metrics' of {} must be an object", where);
  for (const auto& [name, value] : metrics.items())
    trial.metrics.emplace_back(name, reader.number(value, printable(name) + " of " + where));
  return trial;
}

BaselineRow read_row(const BaselineReader& reader, const Json& json, std::size_t number) {
  const std::string where = fmt::format("row {}", number);
  BaselineRow row{.technique = reader.text(json, "technique", where)};
  const Json& settings = reader.member(json, "settings", where);
  if (!settings.is_object())
    reader.fail("is not a saved benchmark: 'settings' of {} must be an object", where);
  for (const auto& [key, value] : settings.items()) {
    if (!value.is_string())
      reader.fail("is not a saved benchmark: setting '{}' of {} must be a string", printable(key),
                  where);
    row.settings[key] = value.get<std::string>();
  }
  if (!json.contains("trials"))
    reader.fail(
        "was saved by an older trainctl that did not keep every run\nhint: save it again with "
        "bench --save");
  std::vector<Trial> trials;
  for (const Json& trial : reader.list(json, "trials", where))
    trials.push_back(
        read_trial(reader, trial, fmt::format("run {} of {}", trials.size() + 1, where)));
  row.samples = samples_of(trials);
  return row;
}

void check_schema(const BaselineReader& reader, const Json& document) {
  const std::string schema = reader.text(document, "schema", "the document");
  if (schema == kSchema) return;
  const bool newer = schema.starts_with("trainctl.bench/");
  reader.fail("must have the schema '{}', got '{}'\nhint: {}", kSchema, printable(schema),
              newer ? "save it again with this version of trainctl"
                    : "pass a file of bench --save, or a run folder");
}

std::string shown(const Json& value) {
  return value.is_string() ? printable(value.get<std::string>()) : printable(to_line(value));
}

}  // namespace

Json machine_key(const Machine& machine) {
  Json key{{"cpu", machine.cpu_model},
           {"cores", machine.cores},
           {"memory_gib", std::llround(static_cast<double>(machine.memory_bytes) / kBytesPerGib)},
           {"gpus", machine.gpu_models}};
  Hasher hasher;
  hasher.add(to_line(key));
  key["hash"] = hasher.hex();
  return key;
}

Json machine_of_manifest(const Json& manifest) {
  const Json& hardware = member(manifest, "hardware");
  if (!hardware.is_object()) return nullptr;
  Json key = Json::object();
  if (hardware.contains("cpu")) key["cpu"] = hardware["cpu"];
  if (hardware.contains("cores")) key["cores"] = hardware["cores"];
  if (const Json& bytes = member(hardware, "memory_bytes"); bytes.is_number())
    key["memory_gib"] = std::llround(bytes.get<double>() / kBytesPerGib);
  if (hardware.contains("gpu_models")) key["gpus"] = hardware["gpu_models"];
  return key;
}

std::vector<std::string> machine_differences(const Json& there, const Json& here,
                                             const std::string& there_name,
                                             const std::string& here_name) {
  std::vector<std::string> differences;
  bool has_machine = false;
  for (const char* key : kMachineKeys) {
    const auto before = there.find(key);
    const auto now = here.find(key);
    if (before == there.end() || now == here.end()) continue;
    has_machine = true;
    if (*before != *now)
      differences.push_back(fmt::format("{}: {} in {}, {} in {}", key, shown(*before), there_name,
                                        shown(*now), here_name));
  }
  if (!has_machine)
    return {"the machine of " + (here.is_object() ? there_name : here_name) + " is not recorded"};
  return differences;
}

Baseline read_baseline(const std::string& text, const std::string& path) {
  const BaselineReader reader(path);
  const Json document = parse_json(text);
  if (document.is_discarded()) reader.fail("is not valid JSON, or is truncated");
  check_schema(reader, document);
  Baseline baseline{.path = path};
  if (const auto machine = document.find("machine"); machine != document.end())
    baseline.machine = *machine;
  if (const auto config = document.find("config_resolved");
      config != document.end() && config->is_string())
    baseline.config_resolved = config->get<std::string>();
  if (const auto threads = optional_number(reader, document, "num_threads", "the document");
      threads && *threads >= 1 && *threads <= 4096)
    baseline.num_threads = static_cast<int>(*threads);
  baseline.channels_last = read_layouts(reader, document);
  for (const Json& row : reader.list(document, "rows", "the document"))
    baseline.rows.push_back(read_row(reader, row, baseline.rows.size() + 1));
  std::erase_if(baseline.rows, [](const BaselineRow& row) { return row.samples.empty(); });
  if (baseline.rows.empty()) reader.fail("contains no successful run");
  return baseline;
}

const BaselineRow* row_for(const Baseline& baseline,
                           const std::vector<std::pair<std::string, std::string>>& settings) {
  const std::map<std::string, std::string> wanted(settings.begin(), settings.end());
  const auto found = std::ranges::find(baseline.rows, wanted, &BaselineRow::settings);
  if (found != baseline.rows.end()) return &*found;
  const bool is_bare = baseline.rows.size() == 1 && baseline.rows.front().settings.empty();
  return is_bare ? &baseline.rows.front() : nullptr;
}

}  // namespace trainctl::report
