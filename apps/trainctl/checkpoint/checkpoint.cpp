#include "checkpoint/container.hpp"
#include "checkpoint/listing.hpp"
#include "checkpoint/verify.hpp"
#include "cli/run_paths.hpp"
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

std::string name_of(State state) {
  return checkpoint::enum_names(state).at(static_cast<std::size_t>(state));
}

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
  if (context.json) {
    Json list = Json::array();
    for (const CheckpointInfo& row : rows) list.push_back(json_of(row));
    print_json({{"schema", "trainctl.checkpoint_ls/2"},
                {"folder", folder.string()},
                {"checkpoints", list}});
    return 0;
  }
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
  if (fs::is_regular_file(path, ignored)) return {path};
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
    Json list = Json::array();
    for (const Verified& one : results)
      list.push_back({{"path", one.path}, {"ok", one.why.empty()}, {"message", one_line(one.why)}});
    print_json(
        {{"schema", "trainctl.checkpoint_verify/2"}, {"exit_code", code}, {"checkpoints", list}});
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
  verb.get_option("path")->required();
}

void add_verify(CLI::App& checkpoint, Context& context) {
  const auto [verb, paths] = add_verb(
      checkpoint, context, {"verify", "check every byte of a checkpoint", kTrainGroup}, verify);
  add_options(verb,
              {{"path", paths, "PATH...", "checkpoints, or run folders (all their checkpoints)"}});
  verb.get_option("path")->required();
  verb.footer("Exit codes: 0 all are intact; 10 one is damaged (file and tensor are printed).");
}

}  // namespace

void add_checkpoint(CLI::App& program, Context& context) {
  CLI::App& verb = add_verb_group(
      program, context,
      {"checkpoint", "list, inspect and verify checkpoints; export and import weights",
       kTrainGroup});
  add_ls(verb, context);
  add_checkpoint_inspect(verb, context);
  add_verify(verb, context);
  add_checkpoint_export(verb, context);
  add_checkpoint_import(verb, context);
}

}  // namespace trainctl::app
