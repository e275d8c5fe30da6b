#include "base/numbers.hpp"
#include "checkpoint/contents.hpp"
#include "checkpoint/folder.hpp"
#include "cli/run_paths.hpp"
#include "cli/verb.hpp"
#include "report/text/table.hpp"

namespace trainctl::app {
namespace {

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
    text_ += "  " +
             report::paint(report::pad(label, 18, report::Align::left), report::Ink::cyan, style_) +
             printable(value) + '\n';
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
  Json tensors = Json::array();
  for (const Tensor& tensor : contents.tensors)
    tensors.push_back({{"part", tensor.part},
                       {"group", tensor.group},
                       {"name", tensor.name},
                       {"dtype", tensor.dtype},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes}});
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
  const bool is_one_file = is_file(word);
  const fs::path path = is_one_file ? fs::path(word) : one_checkpoint(word);
  const Contents contents =
      is_one_file ? checkpoint::contents_of_file(path) : checkpoint::contents_of(path);
  if (context.json) {
    print_json(document(path, contents));
    return 0;
  }
  const report::Style style = style_for(context, stdout);
  std::string text = contents.manifest ? facts_text(path, *contents.manifest, style)
                                       : part_facts(path, contents.meta, style);
  if (!context.quiet) text += tables_text(contents, style);
  writer_for(stdout)(text);
  return 0;
}

}  // namespace

void add_checkpoint_inspect(CLI::App& checkpoint, Context& context) {
  const auto [verb, path] =
      add_verb(checkpoint, context,
               {"inspect", "show the contents and origin of a checkpoint", kTrainGroup}, inspect);
  add_options(verb, {{"path", path, "PATH",
                      "checkpoint folder, a file in it, or a run folder (its newest checkpoint)"}});
  verb.get_option("path")->required();
}

}  // namespace trainctl::app
