#include "report/record/run_files.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "config/tree/yaml.hpp"
#include "report/record/history_files.hpp"

#include <cmath>
#include <system_error>

namespace trainctl::report {
namespace {

constexpr std::uint64_t kMostHistory = std::uint64_t{512} << 20;  // per history file
constexpr std::uint64_t kMostDocument = std::uint64_t{64} << 20;
constexpr std::uint64_t kMostConfig = std::uint64_t{4} << 20;
constexpr std::array kFiles{"config.resolved.yaml", "epochs.csv", "metrics.jsonl", "manifest.json"};
constexpr std::size_t kMostLines = 50'000;

/// Reads the files of a folder, and notes the unreadable ones.
class FolderReader {
 public:
  explicit FolderReader(RunFiles& run) : run_(run) {}

  void read_documents() {
    run_.config = text("config.resolved.yaml", kMostConfig);
    run_.values = flat_values(run_.config);
    if (run_.values.empty() && !run_.config.empty())
      note("config.resolved.yaml is not a YAML mapping");
    run_.result = document("result.json");
    run_.manifest = document("manifest.json");
    read_checkpoints();
    run_.name = run_.value("name").value_or(run_.folder.filename().string());
  }

  void read_histories() {
    read_curves();
    read_tables();
    const std::string ranks = text("ranks.csv", kMostHistory, Presence::optional);
    run_.ranks = ranks_of(ranks, run_.result, run_.notes);
  }

 private:
  enum class Presence { required, optional };

  void note(std::string sentence) { run_.notes.push_back(std::move(sentence)); }

  std::string text(const std::string& name, std::uint64_t most,
                   Presence presence = Presence::required) {
    const fs::path file = run_.folder / name;
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) {
      if (presence == Presence::required) note(name + " is missing");
      return {};
    }
    try {
      return read_file(file, most, ReadFailure::resource);
    } catch (const Error& error) {
      note(fmt::format("{} is skipped: {}", name, one_line(without_hint(error.what()))));
      return {};
    }
  }

  Json document(const std::string& name) {
    const std::string found = text(name, kMostDocument);
    if (found.empty()) return nullptr;
    Json read = parse_bounded(found);
    if (read.is_object()) return read;
    note(name + " is damaged: it must be a JSON object");
    return nullptr;
  }

  void read_curves() {
    const std::string epochs = text("epochs.csv", kMostHistory);
    if (!epochs.empty()) {
      note_damage("epochs.csv", epochs, run_.notes);
      run_.epochs = parse_epochs(epochs);
    }
    run_.steps = steps_of(text("metrics.jsonl", kMostHistory), run_.notes);
  }

  void read_tables() {
    for (const std::string& name : names_in(run_.folder, ".csv")) {
      if (name == "epochs.csv" || name == "timing.csv" || name == "ranks.csv") continue;
      const std::string found = text(name, kMostHistory);
      if (!found.starts_with("epoch,split,class,")) continue;
      for (CountTable& table : tables_of(fs::path(name).stem().string(), found, run_.notes))
        run_.tables.push_back(std::move(table));
    }
  }

  void read_checkpoints() {
    constexpr std::size_t kMost = 200;
    const fs::path folder = run_.folder / "checkpoints";
    for (const std::string& name : names_in(folder, "")) {
      if (run_.checkpoints.size() == kMost) break;
      if (!name.starts_with('.')) run_.checkpoints.push_back({name, bytes_in(folder / name)});
    }
  }

  RunFiles& run_;
};

using FlatValues = std::vector<std::pair<std::string, std::string>>;

bool holds_scalars(const config::Node& list) {
  for (const config::Node& item : list.items) {
    const bool nested = item.type == config::Node::Type::map ||
                        (item.type == config::Node::Type::list && !holds_scalars(item));
    if (nested) return false;
  }
  return true;
}

std::string text_of(const config::Node& node) {
  switch (node.type) {
    case config::Node::Type::null: return "~";
    case config::Node::Type::scalar: return node.text;
    case config::Node::Type::map: return "{}";
    case config::Node::Type::list: break;
  }
  std::string text;
  for (const config::Node& item : node.items) text += (text.empty() ? "" : ", ") + text_of(item);
  return "[" + text + "]";
}

/// Recursion is safe, because parse_yaml() limits the depth.
void flatten(const config::Node& node, const std::string& path, FlatValues& values) {
  const std::string front = path.empty() ? "" : path + ".";
  if (node.type == config::Node::Type::map && !node.entries.empty()) {
    for (const config::Entry& entry : node.entries) flatten(entry.value, front + entry.key, values);
  } else if (node.type == config::Node::Type::list && !holds_scalars(node)) {
    for (std::size_t i = 0; i < node.items.size(); ++i)
      flatten(node.items[i], front + std::to_string(i), values);
  } else if (!path.empty()) {
    values.emplace_back(path, text_of(node));
  }
}

bool trained_on_cpu(const RunFiles& run) {
  if (run.value("trainer.accelerator") == "cpu") return true;
  const Json& gpus = member(member(run.manifest, "machine"), "gpus");
  return gpus.is_array() && gpus.empty();
}

}  // namespace

void StepLines::add(const StepLine& line) {
  if (seen_++ % every_ != 0) return;
  lines_.push_back(line);
  if (lines_.size() < kMostLines) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < lines_.size(); i += 2) lines_[kept++] = lines_[i];
  lines_.resize(kept);
  every_ *= 2;
}

std::optional<std::string> RunFiles::value(std::string_view key) const {
  const auto found = std::ranges::find(values, key, &std::pair<std::string, std::string>::first);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

bool is_run_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder, ignored) && std::ranges::any_of(kFiles, [&](const char* name) {
           return fs::is_regular_file(folder / name, ignored);
         });
}

RunFiles read_run(const fs::path& folder, Histories histories) {
  ENSURE(config, is_run_folder(folder),
         "{} is not a run folder: it has no config.resolved.yaml, epochs.csv or metrics.jsonl{}",
         printable(folder.string()), latest_hint(folder));
  RunFiles run;
  std::error_code failure;
  run.folder = fs::canonical(folder, failure);  // `latest` is a link
  if (failure) run.folder = folder;
  FolderReader reader(run);
  reader.read_documents();
  if (histories == Histories::read) reader.read_histories();
  return run;
}

Json read_document(const fs::path& file) {
  Json document = parse_bounded(read_file(file, kMostDocument, ReadFailure::config));
  ENSURE(config, document.is_object() && !schema_of(document).empty(),
         "{} is not a trainctl JSON document: it has no 'schema'", printable(file.string()));
  return document;
}

std::string schema_of(const Json& document) { return text_at(document, "schema"); }

const Json& member(const Json& object, std::string_view key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(std::string(key));
  return found == object.end() ? kNull : *found;
}

std::string text_at(const Json& object, std::string_view key) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

double number_at(const Json& object, std::string_view key) {
  const Json& value = member(object, key);
  if (value.is_number()) return value.get<double>();
  if (value == "inf") return HUGE_VAL;
  if (value == "-inf") return -HUGE_VAL;
  return std::nan("");
}

std::optional<double> finite_at(const Json& object, std::string_view key) {
  const Json& value = member(object, key);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::vector<std::pair<std::string, std::string>> flat_values(const std::string& yaml) {
  FlatValues values;
  if (yaml.empty()) return values;
  config::Diagnostics ignored;
  const auto source = config::make_source("config.resolved.yaml", yaml);
  const config::Node tree = config::parse_yaml(source, yaml, ignored);
  if (tree.type == config::Node::Type::map) flatten(tree, "", values);
  return values;
}

const char* transfer_name(std::string_view device) { return device == "cpu" ? "convert" : "h2d"; }

const char* transfer_name(const RunRecord& record) {
  return transfer_name(record.hellos.empty() ? std::string_view()
                                             : record.hellos.begin()->second.device);
}

const char* transfer_name(std::span<const RunFiles* const> runs) {
  const auto on_cpu =
      std::ranges::count_if(runs, [](const RunFiles* run) { return trained_on_cpu(*run); });
  if (on_cpu == 0) return "copy to device";
  return on_cpu == static_cast<std::ptrdiff_t>(runs.size()) ? "convert batches" : "copy or convert";
}

}  // namespace trainctl::report
