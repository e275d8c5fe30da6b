#include "base/numbers.hpp"
#include "checkpoint/container.hpp"
#include "checkpoint/contents.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/listing.hpp"
#include "checkpoint/verify.hpp"
#include "cli/run_arguments.hpp"
#include "cli/verb.hpp"
#include "report/text/table.hpp"

namespace trainctl::app {
namespace {

using checkpoint::CheckpointInfo;
using checkpoint::State;

struct LsArguments {
  std::string path;
  bool verify = false;
};

std::string name_of(State state) { return enum_name(state); }

std::vector<std::string> links_of(const CheckpointInfo& row) {
  std::vector<std::string> links;
  if (row.is_last) links.emplace_back("last");
  if (row.is_best) links.emplace_back("best");
  return links;
}

std::string value_text(const CheckpointInfo& row) {
  if (!row.manifest || !row.manifest->value) return "-";
  return report::metric_text(*row.manifest->value);
}

report::Table table_of(const std::vector<CheckpointInfo>& rows) {
  const auto monitored = std::ranges::find_if(rows, [](const CheckpointInfo& row) {
    return row.manifest && !row.manifest->monitor.empty();
  });
  report::Table table(
      {{"name", report::Align::left},
       {"epoch"},
       {"step"},
       {"size"},
       {monitored == rows.end() ? "value" : printable(monitored->manifest->monitor)},
       {"state", report::Align::left},
       {"links", report::Align::left}});
  for (const CheckpointInfo& row : rows) {
    table.add({printable(row.name),
               row.moment ? std::to_string(row.moment->epoch_number()) : std::string("-"),
               row.moment ? with_thousands(row.moment->global_step) : std::string("-"),
               human_bytes(row.bytes), value_text(row), name_of(row.state),
               join(links_of(row), ", ")});
  }
  return table;
}

Json json_of(const CheckpointInfo& row) {
  const bool has_value = row.manifest && row.manifest->value;
  return {{"name", row.name},
          {"epoch", row.moment ? Json(row.moment->epoch_number()) : Json(nullptr)},
          {"step", row.moment ? Json(row.moment->global_step) : Json(nullptr)},
          {"bytes", row.bytes},
          {"monitor", row.manifest ? Json(row.manifest->monitor) : Json(nullptr)},
          {"value", has_value ? report::json_number(*row.manifest->value) : Json(nullptr)},
          {"reason", row.manifest ? Json(row.manifest->reason) : Json(nullptr)},
          {"state", name_of(row.state)},
          {"why", one_line(row.why)},
          {"links", links_of(row)}};
}

/// Removes the path, which is printed first, from the start of a message.
std::string without_path(const std::string& message, const fs::path& path) {
  const std::string shown = printable(path.string());
  if (!message.starts_with(shown + "/") && !message.starts_with(shown + ": ")) return message;
  return message.substr(message.find_first_not_of("/: ", shown.size()));
}

int ls(const LsArguments& arguments, Context& context) {
  const fs::path folder = checkpoints_folder(arguments.path);
  const auto depth =
      arguments.verify ? checkpoint::Depth::everything : checkpoint::Depth::manifests;
  const std::vector<CheckpointInfo> rows = checkpoint::survey(folder, depth);
  if (context.json)
    return print_json({{"schema", "trainctl.checkpoint_ls/2"},
                       {"folder", folder.string()},
                       {"checkpoints", report::json_list(rows, json_of)}});
  if (rows.empty()) {
    put(stderr, fmt::format("there is no checkpoint in {}\n", printable(folder.string())));
    return 0;
  }
  std::string text = report::to_text(table_of(rows), style_for(context, stdout));
  for (const CheckpointInfo& row : rows) {
    if (row.state == State::damaged || row.state == State::unsupported)
      text += fmt::format("{}: {}\n", printable(row.name),
                          printable_lines(without_path(row.why, folder / row.name)));
  }
  writer_for(stdout)(text);
  return 0;
}

struct Verified {
  std::string path;
  std::string why;  // empty: not damaged
  bool unsupported = false;
};

/// Returns the checkpoints and files that a path refers to; a run folder refers to all its
/// committed checkpoints.
std::vector<fs::path> meant_by(const std::string& path) {
  std::error_code ignored;
  if (is_file(path)) return {path};
  const fs::path one = one_checkpoint(path);
  if (fs::equivalent(one, path, ignored)) return {one};
  std::vector<fs::path> all;
  for (const CheckpointInfo& row :
       checkpoint::survey(one.parent_path(), checkpoint::Depth::manifests)) {
    if (row.state != State::unfinished && row.state != State::quarantined)
      all.push_back(one.parent_path() / row.name);
  }
  return all;
}

Verified verify_one(const fs::path& path) {
  try {
    if (is_file(path)) {
      const container::File file(path);
    } else {
      checkpoint::verify(path);
    }
    return {path.string(), ""};
  } catch (const checkpoint::UnsupportedFormat& error) {
    return {path.string(), without_path(error.what(), path), true};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint) throw;
    return {path.string(), without_path(error.what(), path)};
  }
}

void verify_path(const std::string& path, std::vector<Verified>& results) {
  try {
    for (const fs::path& one : meant_by(path)) results.push_back(verify_one(one));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint) throw;
    results.push_back({path, error.what()});
  }
}

int verify(const std::vector<std::string>& paths, Context& context) {
  std::vector<Verified> results;
  for (const std::string& path : paths) verify_path(path, results);
  const bool all_whole = std::ranges::all_of(results, &std::string::empty, &Verified::why);
  const int code = all_whole ? 0 : static_cast<int>(ErrorKind::checkpoint);
  if (context.json) {
    const auto json_of_one = [](const Verified& one) -> Json {
      return {{"path", one.path}, {"ok", one.why.empty()}, {"message", one_line(one.why)}};
    };
    print_json({{"schema", "trainctl.checkpoint_verify/2"},
                {"exit_code", code},
                {"checkpoints", report::json_list(results, json_of_one)}});
    return code;
  }
  for (const Verified& one : results) {
    if (one.why.empty() && !context.quiet) print("ok       " + printable(one.path));
    if (!one.why.empty())
      print(fmt::format("{}  {}: {}", one.unsupported ? "unsupported" : "damaged",
                        printable(one.path), printable_lines(one.why)));
  }
  return code;
}

void add_ls(CLI::App& checkpoint, Context& context) {
  const auto [verb, arguments] = add_verb(
      checkpoint, context, {"ls", "list the checkpoints of a run, newest first", kTrainGroup}, ls);
  add_options(verb,
              {{"path", arguments.path, "PATH", "run folder or its checkpoints folder"},
               {"--verify", arguments.verify, "check every byte of each checkpoint (slower)"}});
}

void add_verify(CLI::App& checkpoint, Context& context) {
  const auto [verb, paths] = add_verb(
      checkpoint, context, {"verify", "check every byte of a checkpoint", kTrainGroup}, verify);
  add_options(verb,
              {{"path", paths, "PATH...", "checkpoints, or run folders (all their checkpoints)"}});
  verb.footer("Exit codes: 0 all are intact; 10 one is damaged (file and tensor are printed).");
}

using checkpoint::Contents;
using checkpoint::Manifest;
using checkpoint::Tensor;

/// Number of tensors and bytes in a group.
struct Sum {
  std::string group;
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
};

std::string group_name(const Tensor& tensor) {
  return tensor.group.empty() ? "(none)" : tensor.group;
}

/// Returns the name of a group for people.
std::string shown_group(const std::string& group) {
  return group == "keeper" ? "best" : printable(group);
}

/// Returns the sums in the order in which the groups first occur.
std::vector<Sum> sums_of(const Contents& contents) {
  std::vector<Sum> sums;
  for (const Tensor& tensor : contents.tensors) {
    const std::string group = group_name(tensor);
    auto found = std::ranges::find(sums, group, &Sum::group);
    if (found == sums.end()) found = sums.insert(sums.end(), Sum{group, 0, 0});
    ++found->tensors;
    found->bytes += tensor.bytes;
  }
  return sums;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + join(sizes, ", ") + "]";
}

/// Lines with a label and a value; empty values are left out.
class Facts {
 public:
  explicit Facts(const report::Style& style) : style_(style) {}
  void add(const std::string& label, const std::string& value) {
    if (value.empty()) return;
    text_ += report::fact_line(label, printable(value), style_, /*label_width=*/18);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  const report::Style& style_;
  std::string text_;
};

/// `epoch` is the epoch of the last step, from 1; 0 before the first step.
std::string step_text(std::int64_t step, std::int64_t epoch, std::int64_t step_in_epoch) {
  if (epoch == 0) return fmt::format("{} (before the first epoch)", step);
  if (step_in_epoch == 0) return fmt::format("{} (at the end of epoch {})", step, epoch);
  return fmt::format("{} (after {} step{} of epoch {})", step, step_in_epoch, plural(step_in_epoch),
                     epoch);
}

/// Returns the integer at that key, if there is one.
std::optional<std::int64_t> number_in(const Json& values, const char* key) {
  const bool is_there =
      values.is_object() && values.contains(key) && values.at(key).is_number_integer();
  return is_there ? std::optional(values.at(key).get<std::int64_t>()) : std::nullopt;
}

/// Describes the part file of a rank, as far as its metadata allows.
std::string part_facts(const fs::path& path, const Json& meta, const report::Style& style) {
  Facts facts(style);
  facts.add("part", path.string());
  const Json position =
      meta.is_object() && meta.contains("position") ? meta.at("position") : Json();
  const auto step = number_in(position, "global_step");
  const auto epoch = number_in(position, "epoch");
  const auto step_in_epoch = number_in(position, "step_in_epoch");
  if (step && epoch && step_in_epoch) facts.add("step", step_text(*step, *epoch, *step_in_epoch));
  if (const auto rank = number_in(meta, "rank")) facts.add("rank", std::to_string(*rank));
  if (const auto size = number_in(meta, "world_size"))
    facts.add("world size", std::to_string(*size));
  facts.add("size", human_bytes(fs::file_size(path)));
  return facts.text();
}

/// Returns the size of all files of the checkpoint, including those shared with other checkpoints.
std::string size_text(const Manifest& manifest) {
  std::uint64_t bytes = 0;
  std::string files = fmt::format("{} (one per rank)", counted(std::ssize(manifest.parts), "file"));
  for (const Manifest::Part& part : manifest.parts) bytes += part.bytes;
  for (const Manifest::SharedGroup& shared : manifest.shared) {
    if (!shared.same_as.empty()) continue;
    bytes += shared.bytes;
    files += " and " + shared.file;
  }
  return fmt::format("{} in {}", human_bytes(bytes), files);
}

std::string facts_text(const fs::path& path, const Manifest& manifest, const report::Style& style) {
  Facts facts(style);
  const auto fact = [&](const std::string& label, const std::string& value) {
    facts.add(label, value);
  };
  fact(path.filename() == checkpoint::kManifestName ? "manifest" : "checkpoint", path.string());
  fact("step",
       step_text(manifest.global_step, manifest.moment().epoch_number(), manifest.step_in_epoch));
  fact("saved",
       manifest.written_at + (manifest.reason.empty() ? "" : ", reason: " + manifest.reason));
  if (!manifest.monitor.empty())
    fact("monitor", manifest.monitor + " " +
                        (manifest.value ? report::metric_text(*manifest.value) : "(not measured)"));
  fact("world size", std::to_string(manifest.world_size));
  fact("size", size_text(manifest));
  fact("trainctl", manifest.version);
  fact("config hash", manifest.config_hash);
  for (const auto& [key, value] : manifest.facts) {
    if (key == "samples_in_epoch" && value == "0") continue;     // at the end of an epoch
    const bool is_text = value.find('\n') != std::string::npos;  // the resolved experiment
    fact(key, is_text ? fmt::format("({} lines)", std::ranges::count(value, '\n')) : value);
  }
  return facts.text();
}

std::string tables_text(const Contents& contents, const report::Style& style) {
  if (contents.tensors.empty()) return "";
  report::Table groups({{"group", report::Align::left}, {"tensors"}, {"size"}});
  for (const Sum& sum : sums_of(contents))
    groups.add({shown_group(sum.group), with_thousands(static_cast<long long>(sum.tensors)),
                human_bytes(sum.bytes)});
  const bool many_parts = contents.manifest && contents.manifest->parts.size() > 1;
  std::vector<report::Column> columns{{"group", report::Align::left},
                                      {"tensor", report::Align::left},
                                      {"dtype", report::Align::left},
                                      {"shape", report::Align::left},
                                      {"bytes"}};
  if (many_parts) columns.push_back({"part", report::Align::left});
  report::Table tensors(columns);
  for (const Tensor& tensor : contents.tensors) {
    std::vector<std::string> cells{shown_group(group_name(tensor)), printable(tensor.name),
                                   tensor.dtype, shape_text(tensor.shape),
                                   with_thousands(static_cast<long long>(tensor.bytes))};
    if (many_parts) cells.push_back(tensor.part);
    tensors.add(std::move(cells));
  }
  return "\n" + report::to_text(groups, style) + "\n" + report::to_text(tensors, style);
}

Json document(const fs::path& path, const Contents& contents) {
  Json groups = Json::object();
  for (const Sum& sum : sums_of(contents))
    groups[sum.group] = {{"tensors", sum.tensors}, {"bytes", sum.bytes}};
  const Json tensors = report::json_list(contents.tensors, [](const Tensor& tensor) {
    return JSON_FIELDS(tensor, part, group, name, dtype, shape, bytes);
  });
  Json all{
      {"schema", "trainctl.checkpoint_inspect/2"},
      {"path", path.string()},
      {"manifest", contents.manifest ? checkpoint::to_json(*contents.manifest) : Json(nullptr)},
      {"groups", groups},
      {"tensors", tensors},
      {"training", contents.training}};
  if (!contents.meta.is_null()) all["meta"] = contents.meta;
  return all;
}

int inspect(const std::string& word, Context& context) {
  const bool is_part = is_file(word);
  const fs::path path = is_part ? fs::path(word) : one_checkpoint(word);
  const Contents contents =
      is_part ? checkpoint::contents_of_file(path) : checkpoint::contents_of(path);
  if (context.json) return print_json(document(path, contents));
  const report::Style style = style_for(context, stdout);
  std::string text = contents.manifest ? facts_text(path, *contents.manifest, style)
                                       : part_facts(path, contents.meta, style);
  if (!context.quiet) text += tables_text(contents, style);
  writer_for(stdout)(text);
  return 0;
}

void add_inspect(CLI::App& checkpoint, Context& context) {
  const auto [verb, path] =
      add_verb(checkpoint, context,
               {"inspect", "show the contents and origin of a checkpoint", kTrainGroup}, inspect);
  add_options(verb, {{"path", path, "PATH",
                      "checkpoint folder, a file in it, or a run folder (its newest checkpoint)"}});
}

}  // namespace

void add_checkpoint(CLI::App& program, Context& context) {
  CLI::App& verb = add_verb_group(
      program, context,
      {"checkpoint", "list, inspect and verify checkpoints; export and import weights",
       kTrainGroup});
  add_ls(verb, context);
  add_inspect(verb, context);
  add_verify(verb, context);
  add_checkpoint_export(verb, context);
  add_checkpoint_import(verb, context);
}

}  // namespace trainctl::app
