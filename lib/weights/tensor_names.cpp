#include "weights/tensor_names.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <array>
#include <set>
#include <unordered_map>

namespace trainctl::weights {
namespace {

constexpr std::size_t kShown = 6;
constexpr std::array<std::string_view, 2> kWrappers{"module.", "_orig_mod."};
// These counters may be missing or extra, as in torch: files from before 2018 have none.
constexpr std::string_view kBatchCount = "num_batches_tracked";

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "a single number" : fmt::format("{}", fmt::join(shape, "x"));
}

bool is_float(std::string_view dtype) { return dtype.starts_with("F") || dtype.starts_with("BF"); }

/// The names of a file during the translation to those of the model; empty: not selected.
class Names {
 public:
  Names(std::vector<std::string> names, const Renaming& options)
      : options_(options), names_(std::move(names)) {
    for (const auto& [from, to] : options.key_map) lengths_.insert(from.size());
  }

  std::vector<std::string> translated(std::vector<std::string>& notes) {
    unwrap(notes);
    take_prefix();
    original_ = names_;
    for (std::string& name : names_) map(name);
    check_unused();
    check_duplicates();
    return std::move(names_);
  }

 private:
  [[nodiscard]] bool all_begin_with(std::string_view prefix) const {
    return !names_.empty() && std::ranges::all_of(names_, [&](const std::string& name) {
      return name.starts_with(prefix);
    });
  }

  void unwrap(std::vector<std::string>& notes) {
    constexpr int kMostWrappers = 4;  // of each kind
    for (int i = 0; i < kMostWrappers; ++i) {
      for (const std::string_view wrapper : kWrappers) {
        if (!all_begin_with(wrapper) || options_.prefix.starts_with(wrapper)) continue;
        for (std::string& name : names_) name.erase(0, wrapper.size());
        notes.push_back(fmt::format("'{}' was removed from the start of all names", wrapper));
      }
    }
  }

  void take_prefix() {
    if (options_.prefix.empty()) return;
    bool found = false;
    std::vector<std::string> before = names_;
    for (std::string& name : names_) {
      const bool meant = name.starts_with(options_.prefix);
      found = found || meant;
      name = meant ? name.substr(options_.prefix.size()) : std::string();
    }
    if (found) return;
    throw Error(
        ErrorKind::config,
        fmt::format("{} is '{}', but no name in the file starts with it; names in the file: {}",
                    options_.prefix_option, printable(options_.prefix), shortened(before)));
  }

  void map(std::string& name) {
    for (const std::size_t length : lengths_) {
      const auto rule = options_.key_map.find(name.substr(0, length));
      if (rule == options_.key_map.end()) continue;
      const auto& [from, to] = *rule;
      if (!from.ends_with('.') && name != from) continue;
      used_.insert(from);
      name = to + name.substr(from.size());
      return;
    }
  }

  void check_unused() const {
    for (const auto& [from, to] : options_.key_map) {
      if (used_.contains(from)) continue;
      const auto near = nearest(from, original_);
      throw Error(
          ErrorKind::config,
          fmt::format("{}: the file has no tensor '{}'{}", options_.key_map_option, printable(from),
                      near ? fmt::format("\nhint: use '{}'", printable(*near))
                           : "; it has " + shortened(original_)));
    }
  }

  void check_duplicates() const {
    std::set<std::string_view> seen;
    for (const std::string& name : names_) {
      ENSURE(config, name.empty() || seen.insert(name).second,
             "{} maps two tensors of the file to '{}'", options_.key_map_option, printable(name));
    }
  }

  const Renaming& options_;
  std::vector<std::string> names_;
  std::vector<std::string> original_;  // before key_map
  std::set<std::string> used_;
  std::set<std::size_t> lengths_;  // of the keys in key_map, so that a name needs few lookups
};

class Matcher {
 public:
  Matcher(const std::vector<Entry>& file, const std::vector<Entry>& model,
          const MatchOptions& options)
      : file_(file), model_(model), options_(options) {}

  Match run() {
    std::vector<std::string> names;
    for (const Entry& entry : file_) names.push_back(entry.name);
    names_ = renamed(names, options_.renaming, out_.notes);
    index_names();
    const bool new_head = !options_.whole && has_other_outputs();
    for (std::size_t i = 0; i < model_.size(); ++i) place(i, new_head);
    for (std::size_t i = 0; i < file_.size(); ++i) {
      if (used_.contains(i)) continue;
      out_.ignored.push_back(file_[i].name);
      if (!names_[i].empty() && !names_[i].ends_with(kBatchCount))
        unexpected_.push_back(file_[i].name);
    }
    check_fit();
    return std::move(out_);
  }

 private:
  void index_names() {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!names_[i].empty()) by_name_.emplace(names_[i], i);
    }
  }

  [[nodiscard]] const Entry* in_file(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &file_[found->second];
  }

  [[nodiscard]] bool in_last_layer(const Entry& entry) const {
    return entry.name.starts_with(options_.last_layer + ".");
  }

  /// Returns whether all tensors of the last layer have the model's outputs as first dimension, and
  /// another common first dimension in the file.
  [[nodiscard]] bool has_other_outputs() const {
    std::int64_t others = options_.outputs;
    for (const Entry& entry : model_) {
      if (!in_last_layer(entry)) continue;
      const Entry* other = in_file(entry.name);
      if (other == nullptr || entry.shape.empty() || entry.shape[0] != options_.outputs ||
          other->shape.size() != entry.shape.size() ||
          !std::equal(entry.shape.begin() + 1, entry.shape.end(), other->shape.begin() + 1))
        return false;
      const bool agrees = others == options_.outputs || others == other->shape[0];
      if (!agrees || other->shape[0] == options_.outputs) return false;
      others = other->shape[0];
    }
    return others != options_.outputs;
  }

  void place(std::size_t at, bool new_head) {
    const Entry& entry = model_[at];
    const auto found = by_name_.find(entry.name);
    if (found == by_name_.end()) {
      out_.missing.push_back(entry.name);
      if (!entry.name.ends_with(kBatchCount)) lacking_.push_back(entry.name);
      return;
    }
    used_.insert(found->second);
    if (new_head && in_last_layer(entry)) {
      out_.reinitialized.push_back(entry.name);
      return;
    }
    const Entry& other = file_[found->second];
    if (other.shape != entry.shape) {
      unfit_.push_back(fmt::format("{} has the shape {} in the file and {} in the model",
                                   printable(entry.name), shape_text(other.shape),
                                   shape_text(entry.shape)));
    } else if (other.dtype != entry.dtype && !(is_float(other.dtype) && is_float(entry.dtype))) {
      unfit_.push_back(fmt::format("{} has the dtype {} in the file and {} in the model",
                                   printable(entry.name), other.dtype, entry.dtype));
    } else {
      out_.pairs.push_back({found->second, at});
      if (other.dtype != entry.dtype) ++converted_[other.dtype + " to " + entry.dtype];
    }
  }

  /// Returns a prefix such as "model." if removing it gives a name of the model.
  [[nodiscard]] std::optional<std::string> likely_prefix() const {
    std::set<std::string_view> known;
    for (const Entry& entry : model_) known.insert(entry.name);
    for (const auto& [name, at] : by_name_) {
      const std::size_t dot = name.find('.');
      if (dot == std::string::npos) continue;
      if (known.contains(std::string_view(name).substr(dot + 1)))
        return file_[at].name.substr(0, file_[at].name.size() - name.size() + dot + 1);
    }
    return std::nullopt;
  }

  void check_fit() {
    for (const auto& [what, count] : converted_)
      out_.notes.push_back(
          fmt::format("{} tensor{} converted from {}", count, plural(count), what));
    std::vector<std::string> problems;
    if (!unfit_.empty()) problems.push_back(fmt::format("{}", fmt::join(cut(unfit_), "; ")));
    if (options_.strict && !lacking_.empty())
      problems.push_back(fmt::format("the file lacks {} tensor{} of the model: {}", lacking_.size(),
                                     plural(lacking_.size()), shortened(lacking_)));
    if (options_.strict && !unexpected_.empty())
      problems.push_back(fmt::format("the model lacks {} tensor{} of the file: {}",
                                     unexpected_.size(), plural(unexpected_.size()),
                                     shortened(unexpected_)));
    if (problems.empty() && out_.pairs.empty())
      problems.push_back("no tensor of the file is in the model; the file has: " +
                         shortened(out_.ignored));
    if (problems.empty()) return;
    throw Error(ErrorKind::checkpoint, fmt::format("the weights do not fit the model: {}{}",
                                                   fmt::join(problems, "; "), advice()));
  }

  [[nodiscard]] std::string advice() const {
    const auto prefix = out_.pairs.empty() && unfit_.empty() ? likely_prefix() : std::nullopt;
    if (prefix && options_.whole) return fmt::format("\nhint: add --prefix {}", printable(*prefix));
    if (options_.whole) return "\nhint: use the experiment that the weights were trained with";
    if (prefix) return fmt::format("\nhint: set weights.prefix: \"{}\"", printable(*prefix));
    if (!unfit_.empty())
      return "\nhint: build the model that the file was saved from (only the number of outputs of "
             "the last layer may differ)";
    return options_.strict ? "\nhint: set weights.strict: false to load only the tensors that "
                             "match, or rename tensors with weights.key_map"
                           : "\nhint: rename the tensors with weights.prefix or weights.key_map";
  }

  static std::vector<std::string> cut(const std::vector<std::string>& all) {
    std::vector<std::string> some(
        all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kShown)));
    if (all.size() > kShown) some.push_back(fmt::format("and {} more", all.size() - kShown));
    return some;
  }

  const std::vector<Entry>& file_;
  const std::vector<Entry>& model_;
  const MatchOptions& options_;
  Match out_;
  std::vector<std::string> names_;  // names of the file's tensors, as the model calls them
  std::unordered_map<std::string, std::size_t> by_name_;
  std::set<std::size_t> used_;
  std::vector<std::string> unfit_, lacking_, unexpected_;
  std::map<std::string, int> converted_;
};

/// Returns all parameters and all layers that contain parameters.
std::vector<std::string> all_names(const std::vector<std::string>& parameters) {
  std::set<std::string> all(parameters.begin(), parameters.end());
  for (const std::string& parameter : parameters) {
    for (std::size_t dot = parameter.find('.'); dot != std::string::npos;
         dot = parameter.find('.', dot + 1))
      all.insert(parameter.substr(0, dot));
  }
  return {all.begin(), all.end()};
}

}  // namespace

std::vector<std::string> renamed(const std::vector<std::string>& names, const Renaming& renaming,
                                 std::vector<std::string>& notes) {
  return Names(names, renaming).translated(notes);
}

Match match(const std::vector<Entry>& file, const std::vector<Entry>& model,
            const MatchOptions& options) {
  return Matcher(file, model, options).run();
}

std::string last_layer_of(const std::vector<std::string>& parameters) {
  if (parameters.empty()) return {};
  const std::string& last = parameters.back();
  return last.substr(0, std::min(last.rfind('.'), last.size()));
}

bool names(const std::string& pattern, const std::string& parameter) {
  return ::fnmatch(pattern.c_str(), parameter.c_str(), 0) == 0 ||
         ::fnmatch((pattern + ".*").c_str(), parameter.c_str(), 0) == 0;
}

std::vector<std::size_t> frozen_by(const std::vector<std::string>& patterns,
                                   const std::vector<std::string>& parameters, const char* key) {
  std::vector<bool> frozen(parameters.size(), false);
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!names(pattern, parameters[i])) continue;
      found = frozen[i] = true;
    }
    if (found) continue;
    const auto near = nearest(pattern, all_names(parameters));
    throw Error(ErrorKind::config,
                fmt::format("{}: the model has no parameter '{}'{}", key, printable(pattern),
                            near ? fmt::format("\nhint: use '{}'", printable(*near))
                                 : "; it has " + shortened(parameters)));
  }
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < frozen.size(); ++i) {
    if (frozen[i]) chosen.push_back(i);
  }
  return chosen;
}

}  // namespace trainctl::weights
