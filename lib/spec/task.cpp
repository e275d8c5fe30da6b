#include "spec/task.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <system_error>

namespace trainctl::spec {
namespace {

constexpr const char* kSchema = "trainctl.task/1";
constexpr std::array kKeys{"schema", "kind", "split", "weights"};
constexpr std::array kSplits{"train", "val", "test"};

std::string text_of(const Json& json, const char* key) {
  ENSURE(config, json.contains(key) && json[key].is_string(), "{}: '{}' is no text", kTaskFile,
         key);
  return json[key].get<std::string>();
}

void check_keys(const Json& json) {
  ENSURE(config, json.is_object(), "{}: it is no JSON object", kTaskFile);
  for (const auto& [key, value] : json.items()) {
    ENSURE(config, std::ranges::find(kKeys, key) != kKeys.end(), "{}: unknown key '{}'", kTaskFile,
           printable(key));
  }
}

}  // namespace

const char* name_of(TaskKind kind) { return enum_names(kind).at(static_cast<std::size_t>(kind)); }

TaskKind kind_called(const std::string& name) {
  const auto names = enum_names(TaskKind());
  const auto* found = std::ranges::find(names, name);
  ENSURE(config, found != names.end(), "{}: there is no kind '{}'", kTaskFile, printable(name));
  return static_cast<TaskKind>(found - names.begin());
}

std::string dump_task(const Task& task) {
  return to_pretty({{"schema", kSchema},
                    {"kind", name_of(task.kind)},
                    {"split", task.split},
                    {"weights", task.weights.string()}}) +
         "\n";
}

Task parse_task(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  check_keys(json);
  ENSURE(config, text_of(json, "schema") == kSchema, "{}: its schema is not {}", kTaskFile,
         kSchema);
  Task task{kind_called(text_of(json, "kind")), text_of(json, "split"), text_of(json, "weights")};
  ENSURE(config, std::ranges::find(kSplits, task.split) != kSplits.end(),
         "{}: there is no split '{}'", kTaskFile, printable(task.split));
  return task;
}

Task read_task(const std::filesystem::path& run_dir) {
  constexpr std::uint64_t kMostBytes = 1 << 16;
  std::error_code ignored;
  const std::filesystem::path file = run_dir / kTaskFile;
  if (!std::filesystem::exists(file, ignored)) return {};
  return parse_task(read_file(file, kMostBytes, ReadFailure::config));
}

const DataSplit& split_called(const Experiment& experiment, const std::string& split) {
  const Dataset& dataset = experiment.dataset;
  if (split == "train") return dataset.train;
  const std::optional<DataSplit>& found = split == "val" ? dataset.val : dataset.test;
  ENSURE(config, found.has_value(),
         "the experiment has no dataset.{}; add it, or choose another --split", split);
  return *found;
}

DataSplit evaluated_split(const Experiment& experiment, const std::string& split) {
  const Dataset& dataset = experiment.dataset;
  if (split == "train") {
    DataSplit train = dataset.train;
    if (dataset.val) train.transforms = dataset.val->transforms;
    return train;
  }
  return split_called(experiment, split);
}

std::filesystem::path part_file(const std::filesystem::path& run_dir, std::string_view what,
                                int rank) {
  return run_dir / "parts" / fmt::format("rank_{}.{}", rank, what);
}

}  // namespace trainctl::spec
