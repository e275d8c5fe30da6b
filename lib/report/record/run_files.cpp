#include "report/record/run_files.hpp"

#include "base/numbers.hpp"
#include "config/tree/yaml.hpp"
#include "events/fields.hpp"

namespace trainctl::report {
namespace {

constexpr std::uint64_t kMostHistory = std::uint64_t{512} << 20;  // per history file
constexpr std::uint64_t kMostDocument = std::uint64_t{64} << 20;
constexpr std::uint64_t kMostConfig = std::uint64_t{4} << 20;
constexpr std::array kFiles{"config.resolved.yaml", "epochs.csv", "metrics.jsonl", "manifest.json"};
constexpr std::size_t kMostLines = 50'000;

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

constexpr std::size_t kMostNotes = 5;  // per file
constexpr std::size_t kMostClasses = 1024;

bool is_number(std::string_view cell) {
  return !std::isnan(cell_number(cell)) || cell == "nan" || cell == "-nan";
}

std::int64_t whole(double value) {
  return value >= 0 && value < 9e15 ? static_cast<std::int64_t>(value) : 0;
}

/// Adds the first sentences about a file, and one sentence with the number of further ones.
class Damage {
 public:
  Damage(std::string file, Notes& notes) : file_(std::move(file)), notes_(notes) {}
  ~Damage() {
    if (count_ > kMostNotes)
      notes_.push_back(fmt::format("{}: {} more lines are damaged", file_, count_ - kMostNotes));
  }
  Damage(const Damage&) = delete;
  Damage& operator=(const Damage&) = delete;

  void add(std::size_t line, const std::string& what) { note(line, what + " and is skipped"); }
  /// Notes damage in a line that is used nevertheless.
  void note(std::size_t line, const std::string& what) {
    if (++count_ <= kMostNotes)
      notes_.push_back(fmt::format("{}: line {} {}", file_, line, bounded(what)));
  }

 private:
  std::string file_;
  Notes& notes_;
  std::size_t count_ = 0;
};

/// Calls take(number, columns, cells) for each line after the header with the right number of
/// cells.
template <class Take>
void each_row(std::string_view text, Damage& damage, const Take& take) {
  const std::vector<std::string> columns = csv_cells(next_line(text));
  for (std::size_t number = 2; !text.empty(); ++number) {
    const std::vector<std::string> cells = csv_cells(next_line(text));
    if (cells.size() == columns.size()) {
      take(number, columns, cells);
    } else {
      damage.add(number, fmt::format("has {} cells instead of {}", cells.size(), columns.size()));
    }
  }
}

/// Reads an epoch from cells by column name.
events::RankEpoch rank_epoch(const std::map<std::string, std::string>& row) {
  const auto number = [&](const char* name) {
    const auto found = row.find(name);
    return found == row.end() ? std::nan("") : cell_number(found->second);
  };
  events::RankEpoch epoch;
  epoch.rank = static_cast<int>(std::min<std::int64_t>(whole(number("rank")), 1'000'000));
  epoch.epoch = whole(number("epoch")) - 1;
  for (const RankColumn& column : rank_columns()) {
    const double value = number(column.name);
    if (column.count != nullptr) {
      epoch.*column.count = whole(value);
    } else {
      epoch.*column.number = std::isinf(value) ? 0 : value;  // NaN: not known
    }
  }
  return epoch;
}

events::StepLogged step_of(const Json& line) {
  return {.epoch = whole(number_at(line, "epoch")) - 1,
          .global_step = whole(number_at(line, "step")),
          .loss = number_at(line, "train/loss"),
          .lr = number_at(line, "lr"),
          .elapsed_s = number_at(line, "elapsed_s"),
          .grad_norm = number_at(line, "grad_norm"),
          .param_norm = number_at(line, "param_norm")};
}

/// Returns the counts after the first three cells of a line; empty if one is not a number.
std::vector<std::int64_t> counts_of(const std::vector<std::string>& cells) {
  std::vector<std::int64_t> counts;
  for (std::size_t i = 3; i < cells.size(); ++i) {
    const double count = cell_number(cells[i]);
    if (!(count >= 0)) return {};
    counts.push_back(whole(count));
  }
  return counts;
}

/// Returns false if `timing` has no such field.
bool set_field(events::Timing& timing, std::string_view column, double value) {
  bool found = false;
  events::each_field(timing, [&](std::string_view name, auto& field) {
    if (name != column) return;
    found = true;
    if constexpr (std::is_same_v<decltype(field), std::int64_t&>) {
      field = whole(value);
    } else {
      field = value;
    }
  });
  return found;
}

void set(events::EpochEnded& epoch, const std::string& column, double value) {
  if (column == "epoch") {
    epoch.epoch = whole(value) - 1;
  } else if (column == "step") {
    epoch.global_step = whole(value);
  } else if (column == "lr") {
    epoch.lr = value;
  } else if (!set_field(epoch.timing, column, value)) {
    epoch.metrics.emplace_back(column, value);
  }
}

/// Returns the last epoch of each split.
std::vector<CountTable> tables_of(const std::string& metric, std::string_view text, Notes& notes) {
  const std::size_t columns = csv_cells(next_line(text)).size();
  if (columns < 4 || columns > 3 + kMostClasses) return {};
  const std::size_t classes = columns - 3;
  Damage damage(metric + ".csv", notes);
  std::map<std::string, CountTable> found;
  for (std::size_t number = 2; !text.empty(); ++number) {
    const std::vector<std::string> cells = csv_cells(next_line(text));
    const std::vector<std::int64_t> counts = counts_of(cells);
    if (counts.size() != classes) {
      damage.add(number, fmt::format("does not have {} counts", classes));
      continue;
    }
    CountTable& table = found[cells[1]];
    const std::int64_t epoch = whole(cell_number(cells[0]));
    const std::int64_t row = whole(cell_number(cells[2]));
    if (epoch != table.epoch || table.counts.empty())
      table = {metric, cells[1], epoch, {classes, std::vector<std::int64_t>(classes)}};
    if (row < static_cast<std::int64_t>(classes))
      table.counts[static_cast<std::size_t>(row)] = counts;
  }
  std::vector<CountTable> tables;
  for (auto& [split, table] : found) tables.push_back(std::move(table));
  return tables;
}

/// Returns the rows of ranks.csv with hosts and devices from `result`.
std::vector<RankRow> ranks_of(std::string_view text, const Json& result, Notes& notes) {
  if (text.empty()) return {};
  RunRecord record;
  {
    Damage damage("ranks.csv", notes);
    each_row(text, damage, [&](std::size_t /*number*/, const auto& columns, const auto& cells) {
      std::map<std::string, std::string> row;
      for (std::size_t i = 0; i < cells.size(); ++i) row[columns[i]] = cells[i];
      const events::RankEpoch epoch = rank_epoch(row);
      if (epoch.epoch >= 0) record.add(epoch.rank, epoch);
    });
  }
  const Json& recorded = member(result, "ranks");
  if (recorded.is_array()) {
    for (const Json& rank : recorded) {
      const double number = number_at(rank, "rank");
      if (!(number >= 0 && number < 1e6)) continue;
      events::Hello hello;
      hello.rank = static_cast<int>(number);
      hello.host = text_at(rank, "host");
      hello.device = text_at(rank, "device");
      record.add(hello.rank, hello);
    }
  }
  return rank_rows(record);
}

/// Returns the size of a file, or of the files directly in a folder, in bytes.
std::uint64_t bytes_in(const fs::path& path) {
  std::error_code failure;
  if (fs::is_regular_file(path, failure)) {
    const std::uint64_t bytes = fs::file_size(path, failure);
    return failure ? 0 : bytes;
  }
  std::uint64_t sum = 0;
  for (const std::string& name : names_in(path, "")) {
    if (!fs::is_regular_file(path / name, failure)) continue;
    const std::uint64_t bytes = fs::file_size(path / name, failure);
    if (!failure) sum += bytes;
  }
  return sum;
}

/// Returns a hint to take FOLDER/latest if the folder contains runs; else empty.
std::string latest_hint(const fs::path& folder) {
  const fs::path latest = folder / "latest";
  return is_folder(latest)
             ? fmt::format("\nhint: use a run folder, such as {}", printable(latest.string()))
             : std::string();
}

/// Returns the epochs in epochs.csv, see read_epochs().
std::vector<events::EpochEnded> parse_epochs(const std::string& text) {
  std::vector<events::EpochEnded> epochs;
  const std::vector<std::string> lines = split(text, '\n');
  const std::vector<std::string> columns = csv_cells(lines.front());
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> cells = csv_cells(lines[i]);
    if (cells.size() != columns.size()) continue;
    events::EpochEnded epoch;
    epoch.epoch = -1;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (const auto value = parse_number<double>(cells[c])) set(epoch, columns[c], *value);
    }
    while (epoch.epoch >= 0 && !epochs.empty() && epochs.back().epoch >= epoch.epoch)
      epochs.pop_back();
    if (epoch.epoch >= 0) epochs.push_back(std::move(epoch));
  }
  return epochs;
}

/// Returns "a.b.0.c" -> text for each value of a YAML document; a list of scalars is one value.
/// Returns an empty list if the document cannot be parsed.
FlatValues flat_values(const std::string& yaml) {
  FlatValues values;
  if (yaml.empty()) return values;
  config::Diagnostics ignored;
  const auto source = config::make_source("config.resolved.yaml", yaml);
  const config::Node tree = config::parse_yaml(source, yaml, ignored);
  if (tree.type == config::Node::Type::map) flatten(tree, "", values);
  return values;
}

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
    const std::vector<std::string> grids = names_in(run_.folder / "samples", ".png");
    if (!grids.empty()) run_.samples = text("samples/" + grids.back(), kMostDocument);
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
    if (!is_file(file)) {
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
    Json read = parse_json(found);
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

}  // namespace

void StepLines::add(const events::StepLogged& line) {
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
  return is_folder(folder) &&
         std::ranges::any_of(kFiles, [&](const char* name) { return is_file(folder / name); });
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
  Json document = parse_json(read_file(file, kMostDocument, ReadFailure::config));
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

std::vector<double> numbers_at(const Json& object, std::string_view key) {
  std::vector<double> numbers;
  const Json& list = member(object, key);
  if (!list.is_array()) return numbers;
  for (const Json& value : list)
    numbers.push_back(value.is_number() ? value.get<double>() : std::nan(""));
  return numbers;
}

std::optional<double> finite_at(const Json& object, std::string_view key) {
  const Json& value = member(object, key);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
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

void note_damage(const std::string& name, std::string_view text, Notes& notes) {
  Damage damage(name, notes);
  const auto is_bad = [](const std::string& cell) { return !cell.empty() && !is_number(cell); };
  each_row(text, damage, [&](std::size_t number, const auto& columns, const auto& cells) {
    if (std::isnan(cell_number(cells.front()))) {
      damage.add(number, "does not start with an epoch number");
    } else if (const auto bad = std::find_if(cells.begin() + 1, cells.end(), is_bad);
               bad != cells.end()) {
      const auto column = static_cast<std::size_t>(bad - cells.begin());
      damage.note(number, fmt::format("has no number in column {}", printable(columns[column])));
    }
  });
}

StepLines steps_of(std::string_view text, Notes& notes) {
  Damage damage("metrics.jsonl", notes);
  StepLines steps;
  std::int64_t last = -1;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const bool is_whole = text.find('\n') != std::string_view::npos;
    const std::string_view line = next_line(text);
    if (line.empty()) continue;
    const Json read = parse_json(line);
    const std::string type = text_at(read, "type");
    if (type != "step") {
      const bool is_cut = !is_whole && !read.is_object();  // a running run is writing it
      if (type.empty() && !is_cut) damage.add(number, "is not a metrics line");
      continue;
    }
    const events::StepLogged step = step_of(read);
    if (step.global_step <= last) {
      damage.add(number, fmt::format("has step {} after step {}", with_thousands(step.global_step),
                                     with_thousands(last)));
      continue;
    }
    last = step.global_step;
    steps.add(step);
  }
  return steps;
}

std::vector<std::string> names_in(const fs::path& folder, std::string_view ending) {
  constexpr std::size_t kMost = 10'000;
  std::vector<std::string> names;
  std::error_code failure;
  fs::directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::directory_iterator() && names.size() < kMost;
       entry.increment(failure)) {
    std::string name = entry->path().filename().string();
    if (name.ends_with(ending)) names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

std::vector<events::EpochEnded> read_epochs(const std::filesystem::path& epochs_csv) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  if (!is_file(epochs_csv)) return {};
  return parse_epochs(read_file(epochs_csv, kMostBytes, ReadFailure::resource));
}

}  // namespace trainctl::report
