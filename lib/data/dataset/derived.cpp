#include "base/error.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/numbers.hpp"
#include "data/core/dataset_split.hpp"
#include "data/core/pipeline.hpp"
#include "data/formats/file_reader.hpp"
#include "spec/options/dataset.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <unordered_map>

// The data sets that are made of other data sets: `subset` and `concat`.

namespace trainctl::data {
namespace {

const Field kClass{"label", Dtype::i64, {}};

Facts known_facts(const Dataset& dataset) {
  return {dataset.size(), dataset.classes(), dataset.layout(), dataset.class_names()};
}

/// A data set with other numbers and names for its classes.
class Relabeled final : public Dataset {
 public:
  /// `labels` has the new label of each old one; an old label of -1 does not occur.
  Relabeled(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> labels,
            std::vector<std::string> names)
      : dataset_(std::move(dataset)),
        labels_(std::move(labels)),
        names_(std::move(names)),
        field_(find_field(dataset_->layout(), kClass.name)) {}

  [[nodiscard]] std::int64_t size() const override { return dataset_->size(); }
  [[nodiscard]] const Layout& layout() const override { return dataset_->layout(); }
  [[nodiscard]] std::int64_t classes() const override { return std::ssize(names_); }
  [[nodiscard]] std::vector<std::string> class_names() const override { return names_; }
  [[nodiscard]] std::int64_t tile_rows() const override { return dataset_->tile_rows(); }
  [[nodiscard]] bool in_memory() const override { return dataset_->in_memory(); }
  [[nodiscard]] Footprint footprint() const override { return dataset_->footprint(); }
  [[nodiscard]] Mixture mixture() const override { return dataset_->mixture(); }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    dataset_->fill(indices, rows);
    const std::span<std::byte> bytes = rows[field_];
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::int64_t)) {
      std::int64_t label = 0;
      std::memcpy(&label, bytes.data() + at, sizeof label);
      label = labels_.at(static_cast<std::size_t>(label));
      std::memcpy(bytes.data() + at, &label, sizeof label);
    }
  }
  [[nodiscard]] const ImageStore* images() const override { return dataset_->images(); }
  [[nodiscard]] const Fetchable* fetchable() const override { return dataset_->fetchable(); }
  [[nodiscard]] std::string fingerprint() const override { return digest(dataset_->fingerprint()); }
  [[nodiscard]] std::string membership() const override { return digest(dataset_->membership()); }

 private:
  [[nodiscard]] std::string digest(const std::string& of_samples) const {
    Hasher hasher;
    hasher.add(of_samples);
    hasher.add(std::as_bytes(std::span(labels_)));
    for (const std::string& name : names_) hasher.add(name), hasher.add(name.size());
    return hasher.hex();
  }

  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> labels_;
  std::vector<std::string> names_;
  std::size_t field_;
};

/// The samples that the options of `subset` select, and its classes.
struct Selection {
  std::vector<std::int64_t> samples;
  std::vector<std::int64_t> labels;  // new label by old label, -1 for none; empty: unchanged
};

using ReadLabels = std::function<std::vector<std::int64_t>()>;

std::vector<std::int64_t> indices_in(const std::filesystem::path& path) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;
  std::vector<std::int64_t> indices;
  std::size_t number = 0;
  for (const std::string& line : split(read_file(path, kMostBytes, ReadFailure::data), '\n')) {
    ++number;
    const std::string text(trimmed(line));
    if (text.empty()) continue;
    const auto index = parse_number<std::int64_t>(text);
    ENSURE(data, index.has_value(), "{}:{}: '{}' is not a whole number", printable(path.string()),
           number, printable(text));
    indices.push_back(*index);
  }
  return indices;
}

/// Returns the samples of `indices`, `range` or `file`, or else all samples.
std::vector<std::int64_t> listed_samples(const spec::dataset::Subset& options,
                                         std::int64_t samples) {
  std::vector<std::int64_t> chosen = options.file ? indices_in(*options.file) : options.indices;
  if (options.indices.empty() && !options.file) {
    const auto [first, end] = options.range.value_or(std::array<std::int64_t, 2>{0, samples});
    ENSURE(config, first < end && end <= samples,
           "'range' must be [START, STOP] with START below STOP and STOP at most {}, the number of "
           "samples, got [{}, {}]",
           samples, first, end);
    chosen.resize(static_cast<std::size_t>(end - first));
    std::iota(chosen.begin(), chosen.end(), first);
    return chosen;
  }
  std::vector<bool> seen(static_cast<std::size_t>(samples));
  for (const std::int64_t index : chosen) {
    ENSURE(data, index >= 0 && index < samples,
           "sample {} does not exist: the source has {} samples, numbered from 0", index, samples);
    ENSURE(data, !seen[static_cast<std::size_t>(index)],
           "sample {} is listed twice\nhint: to repeat samples, use 'concat' with 'weights'",
           index);
    seen[static_cast<std::size_t>(index)] = true;
  }
  return chosen;
}

/// Returns whether each sample has a class, unlike masks, which have one for each pixel.
bool has_class_labels(const Facts& source) {
  return source.classes > 0 && std::ranges::count(source.layout, kClass) > 0;
}

/// Returns the index of each name, for equal names the first.
std::unordered_map<std::string_view, std::int64_t> indices_of(
    const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, std::int64_t> indices;
  for (const std::string& name : names) indices.emplace(name, &name - names.data());
  return indices;
}

/// Returns the new label of each class of the source, -1 for classes that are left out.
std::vector<std::int64_t> kept_classes(const std::vector<std::string>& kept, const Facts& source) {
  ENSURE(config, has_class_labels(source),
         "'classes' needs labels that are classes, but the source has none\nhint: remove "
         "'classes'");
  std::vector<std::int64_t> labels(static_cast<std::size_t>(source.classes), -1);
  const auto indices = indices_of(source.class_names);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto named = indices.find(kept[i]);
    std::int64_t label = named == indices.end() ? -1 : named->second;
    if (source.class_names.empty()) label = parse_number<std::int64_t>(kept[i]).value_or(-1);
    ENSURE(config, label >= 0 && label < source.classes, "'{}' is not a class of the source{}",
           printable(kept[i]),
           source.class_names.empty()
               ? fmt::format(", whose classes are 0 to {}", source.classes - 1)
               : "\nhint: its classes are " + printable(join(source.class_names, ", ")));
    std::int64_t& kept_as = labels[static_cast<std::size_t>(label)];
    ENSURE(config, kept_as < 0, "the class '{}' is listed twice", printable(kept[i]));
    kept_as = static_cast<std::int64_t>(i);
  }
  return labels;
}

/// Draws that share of the samples, in ascending order; with labels the same share of each class.
std::vector<std::int64_t> drawn_samples(const spec::dataset::Subset& options, double fraction,
                                        const std::vector<std::int64_t>& samples,
                                        const std::vector<std::int64_t>& labels) {
  std::vector<std::int64_t> strata;
  if (options.stratify) {
    for (const std::int64_t sample : samples)
      strata.push_back(labels[static_cast<std::size_t>(sample)]);
  }
  const Parts parts = partition(
      {.samples = std::ssize(samples),
       .shares = {fraction, 1 - fraction},
       .strata = strata,
       .seed = options.seed,
       .part_names = {"the subset", "the rest"},
       .stratum_name = [](std::int64_t label) { return fmt::format("class {}", label); }});
  std::vector<std::int64_t> drawn;
  for (const std::int64_t at : parts[0]) drawn.push_back(samples[static_cast<std::size_t>(at)]);
  return drawn;
}

Selection select_samples(const spec::dataset::Subset& options, const Facts& source,
                         const ReadLabels& read) {
  const int lists =
      (options.indices.empty() ? 0 : 1) + (options.range ? 1 : 0) + (options.file ? 1 : 0);
  ENSURE(config, lists <= 1, "'indices', 'range' and 'file' exclude each other");
  ENSURE(config, lists == 1 || !options.classes.empty() || options.fraction,
         "a subset needs 'indices', 'range', 'file', 'classes' or 'fraction'");
  ENSURE(config, !options.stratify || has_class_labels(source),
         "'stratify' needs labels that are classes, but the source has none\nhint: remove "
         "'stratify'");
  Selection selection{listed_samples(options, source.samples), {}};
  if (!options.classes.empty()) selection.labels = kept_classes(options.classes, source);
  const bool needs_labels = !options.classes.empty() || options.stratify;
  const auto labels = needs_labels ? read() : std::vector<std::int64_t>();
  if (!options.classes.empty())
    std::erase_if(selection.samples, [&](std::int64_t sample) {
      const std::int64_t label = labels[static_cast<std::size_t>(sample)];
      return selection.labels.at(static_cast<std::size_t>(label)) < 0;
    });
  if (options.fraction.value_or(1) < 1)
    selection.samples = drawn_samples(options, *options.fraction, selection.samples, labels);
  ENSURE(data, !selection.samples.empty(), "the subset has no samples");
  return selection;
}

std::shared_ptr<const Dataset> make_subset(const spec::dataset::Subset& options) {
  const auto source = made_of(catalog_in_use().datasets, options.source);
  const Selection selection =
      select_samples(options, known_facts(*source), [&] { return read_labels(*source); });
  auto chosen = subset(source, selection.samples);
  if (options.classes.empty()) return chosen;
  return std::make_shared<const Relabeled>(chosen, selection.labels, options.classes);
}

/// Opens the source only if its labels matter.
Facts subset_facts(const spec::dataset::Subset& options) {
  const Catalog catalog = catalog_in_use();
  Facts facts = made_of(catalog.facts, options.source);
  facts.samples = std::ssize(select_samples(options, facts, [&] {
                               return read_labels(*made_of(catalog.datasets, options.source));
                             }).samples);
  if (options.classes.empty()) return facts;
  facts.classes = std::ssize(options.classes);
  facts.class_names = options.classes;
  return facts;
}

std::string field_text(const Field& field) {
  constexpr std::array kTypes{"uint8", "int64", "float32"};
  return fmt::format("{} {} [{}]{}{}", field.name, kTypes.at(static_cast<std::size_t>(field.dtype)),
                     fmt::join(field.shape, ", "),
                     field.vocab_size > 0 ? fmt::format(" of {} tokens", field.vocab_size) : "",
                     field.padding_id >= 0 ? fmt::format(" padded with {}", field.padding_id) : "");
}

std::string layout_text(const Layout& layout) {
  std::string text;
  for (const Field& field : layout) text += (text.empty() ? "" : ", ") + field_text(field);
  return text;
}

/// What two sources must have in common, with their names for messages.
struct SourcePair {
  Facts& whole;  // of the sources so far
  const Facts& next;
  const std::string& first_name;
  const std::string& next_name;

  /// Images of different sizes may be combined: the transforms must then give them one size.
  void combine_layouts() const {
    const Layout before = whole.layout;
    bool fits = whole.layout.size() == next.layout.size();
    for (std::size_t i = 0; fits && i < whole.layout.size(); ++i) {
      Field& field = whole.layout[i];
      Field other = next.layout[i];
      const bool are_images = field.name == "image" && other.name == "image" &&
                              field.shape.size() == 3 && other.shape.size() == 3;
      if (are_images && field.shape != other.shape) {
        field.shape[0] = field.shape[1] = 0;
        other.shape[0] = other.shape[1] = 0;
      }
      if (field.vocab_size == 0) field.vocab_size = other.vocab_size;
      if (other.vocab_size == 0) other.vocab_size = field.vocab_size;
      fits = field == other;
    }
    ENSURE(config, fits,
           "the sources must have the same fields, but {} has {}, and {} has {}\nhint: combine "
           "data sets of one kind, with images of one number of channels",
           first_name, layout_text(before), next_name, layout_text(next.layout));
  }
  void combine_columns() const {
    ENSURE(config, whole.feature_names == next.feature_names,
           "the sources must have the same features in the same order, but {} has {}, and {} has "
           "{}\nhint: list the columns under 'features' of each source",
           first_name, printable(join(whole.feature_names, ", ")), next_name,
           printable(join(next.feature_names, ", ")));
  }
  void combine_classes() const {
    const std::set<std::string> before(whole.class_names.begin(), whole.class_names.end());
    const std::set<std::string> now(next.class_names.begin(), next.class_names.end());
    const bool are_named = !before.empty() && !now.empty();
    ENSURE(config, whole.classes == next.classes && (!are_named || before == now),
           "the sources must have the same classes, but {} has {}, and {} has {}\nhint: set "
           "'classes' of each source, or use 'subset' to select the classes that all have",
           first_name, classes_text(whole), next_name, classes_text(next));
    ENSURE(config, !are_named || has_class_labels(next) || whole.class_names == next.class_names,
           "the classes of masks must have the same order in all sources, but {} has {}, and {} "
           "has {}",
           first_name, classes_text(whole), next_name, classes_text(next));
    if (before.empty()) whole.class_names = next.class_names;
  }
  static std::string classes_text(const Facts& facts) {
    if (facts.class_names.empty())
      return facts.classes == 0 ? "no classes" : counted(facts.classes, "class", "classes");
    return printable(join(facts.class_names, ", "));
  }
};

std::vector<std::string> source_names(const spec::dataset::Concat& options) {
  std::vector<std::string> names;
  for (const config::Stage& source : options.sources)
    names.push_back(fmt::format("sources.{} ({})", names.size(), source.type));
  return names;
}

/// Returns the facts of all sources together. Throws Error(config) that names two sources that do
/// not fit together.
Facts combine(const std::vector<Facts>& sources, const std::vector<std::string>& names) {
  Facts whole = sources.front();
  for (std::size_t i = 1; i < sources.size(); ++i) {
    const SourcePair pair{whole, sources[i], names.front(), names[i]};
    pair.combine_layouts();
    pair.combine_columns();
    pair.combine_classes();
    whole.samples += sources[i].samples;
  }
  return whole;
}

/// The samples of several data sets, one after the other.
class Concat final : public Dataset, public ImageStore, public ImageRanges, public Fetchable {
 public:
  Concat(std::vector<std::shared_ptr<const Dataset>> sources, Facts facts,
         std::vector<double> weights)
      : sources_(std::move(sources)), facts_(std::move(facts)), weights_(std::move(weights)) {
    std::int64_t end = 0;
    for (const auto& source : sources_) ends_.push_back(end += source->size());
  }

  [[nodiscard]] std::int64_t size() const override { return facts_.samples; }
  [[nodiscard]] const Layout& layout() const override { return facts_.layout; }
  [[nodiscard]] std::int64_t classes() const override { return facts_.classes; }
  [[nodiscard]] std::vector<std::string> class_names() const override { return facts_.class_names; }
  [[nodiscard]] std::int64_t tile_rows() const override {
    std::int64_t least = 0;
    for (const auto& source : sources_) {
      const std::int64_t rows = source->tile_rows();
      if (rows > 0) least = least == 0 ? rows : std::min(least, rows);
    }
    return least;
  }
  [[nodiscard]] bool in_memory() const override {
    return std::ranges::all_of(sources_, [](const auto& source) { return source->in_memory(); });
  }
  [[nodiscard]] Footprint footprint() const override {
    Footprint sum;
    for (const auto& source : sources_) {
      sum.memory += source->footprint().memory;
      sum.mapped += source->footprint().mapped;
    }
    return sum;
  }
  [[nodiscard]] Mixture mixture() const override {
    if (weights_.empty()) return {};
    Mixture mixture{weights_, {}};
    for (std::size_t i = 0; i < sources_.size(); ++i)
      mixture.groups.resize(static_cast<std::size_t>(ends_[i]), static_cast<std::uint32_t>(i));
    return mixture;
  }
  /// Passes consecutive samples of one source to it together.
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    std::vector<std::int64_t> own;
    std::vector<std::span<std::byte>> own_rows(rows.size());
    for (std::size_t first = 0; first < indices.size(); first += own.size()) {
      const std::size_t source = place(indices[first]).source;
      own.clear();
      for (std::size_t i = first; i < indices.size(); ++i) {
        const Place at = place(indices[i]);
        if (at.source != source) break;
        own.push_back(at.index);
      }
      for (std::size_t field = 0; field < rows.size(); ++field) {
        const std::size_t bytes = rows[field].size() / indices.size();
        own_rows[field] = rows[field].subspan(first * bytes, own.size() * bytes);
      }
      sources_[source]->fill(own, own_rows);
    }
  }
  [[nodiscard]] const ImageStore* images() const override {
    return sources_.front()->images() == nullptr ? nullptr : this;
  }
  [[nodiscard]] const Fetchable* fetchable() const override {
    const bool any = std::ranges::any_of(
        sources_, [](const auto& source) { return source->fetchable() != nullptr; });
    return any ? this : nullptr;
  }
  [[nodiscard]] std::string fingerprint() const override {
    Hasher hasher;
    for (const auto& source : sources_) hasher.add(source->fingerprint());
    return hasher.hex();
  }
  [[nodiscard]] std::string membership() const override {
    Hasher hasher;
    for (const auto& source : sources_) hasher.add(source->membership());
    return hasher.hex();
  }

  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override {
    const Place at = place(index);
    return sources_[at.source]->images()->read(at.index, scratch);
  }
  /// Contains the number of the source, because names of different sources may be equal.
  [[nodiscard]] std::string name(std::int64_t index) const override {
    const Place at = place(index);
    return fmt::format("{}:{}", at.source, sources_[at.source]->images()->name(at.index));
  }
  void prefetch(std::int64_t index) const override {
    const Place at = place(index);
    sources_[at.source]->images()->prefetch(at.index);
  }
  [[nodiscard]] const ImageRanges* ranges() const override {
    const bool all = std::ranges::all_of(
        sources_, [](const auto& source) { return source->images()->ranges() != nullptr; });
    return all ? this : nullptr;
  }

  [[nodiscard]] std::uint64_t bytes() const override {
    std::uint64_t sum = 0;
    for (const auto& source : sources_) sum += source->images()->ranges()->bytes();
    return sum;
  }
  /// Numbers the files of all sources: file f of source s of S is f * S + s.
  [[nodiscard]] FileRange range(std::int64_t index) const override {
    const Place at = place(index);
    FileRange range = ranges_of(at.source).range(at.index);
    range.file = range.file * sources_.size() + at.source;
    return range;
  }
  [[nodiscard]] FileReader open(std::size_t file) const override {
    return ranges_of(file % sources_.size()).open(file / sources_.size());
  }
  [[nodiscard]] StoredImage image(std::int64_t index,
                                  std::span<const std::byte> bytes) const override {
    const Place at = place(index);
    return ranges_of(at.source).image(at.index, bytes);
  }

  std::uint64_t fetch(std::int64_t index) const override {
    const Place at = place(index);
    const Fetchable* remote = sources_[at.source]->fetchable();
    return remote == nullptr ? 0 : remote->fetch(at.index);
  }
  /// Returns an empty path for a sample of a source on this machine.
  [[nodiscard]] std::string object(std::int64_t index) const override {
    const Place at = place(index);
    const Fetchable* remote = sources_[at.source]->fetchable();
    return remote == nullptr ? std::string() : remote->object(at.index);
  }

 private:
  struct Place {
    std::size_t source = 0;
    std::int64_t index = 0;
  };

  [[nodiscard]] Place place(std::int64_t index) const {
    ASSERT(index >= 0 && index < size());
    const auto end = std::ranges::upper_bound(ends_, index);
    const auto source = static_cast<std::size_t>(end - ends_.begin());
    return {source, index - (source == 0 ? 0 : ends_[source - 1])};
  }
  [[nodiscard]] const ImageRanges& ranges_of(std::size_t source) const {
    return *sources_[source]->images()->ranges();
  }

  std::vector<std::shared_ptr<const Dataset>> sources_;
  std::vector<std::int64_t> ends_;  // first index after each source
  Facts facts_;
  std::vector<double> weights_;
};

void check_weights(const spec::dataset::Concat& options) {
  ENSURE(config, !options.sources.empty(), "'sources' must list at least one data set");
  ENSURE(config, options.weights.empty() || options.weights.size() == options.sources.size(),
         "'weights' must have one weight per source, got {} weights for {} sources",
         options.weights.size(), options.sources.size());
  ENSURE(config, options.weights.empty() || std::ranges::max(options.weights) > 0,
         "one of the 'weights' must be above 0");
}

std::shared_ptr<const Dataset> make_concat(const spec::dataset::Concat& options) {
  check_weights(options);
  const Catalog catalog = catalog_in_use();
  const std::vector<std::string> names = source_names(options);
  std::vector<std::shared_ptr<const Dataset>> sources;
  std::vector<Facts> facts;
  for (std::size_t i = 0; i < options.sources.size(); ++i) {
    sources.push_back(
        in_context(names[i], [&] { return made_of(catalog.datasets, options.sources[i]); }));
    ENSURE(config, sources.back()->mixture().weights.empty(),
           "{} has 'weights', but only the outer 'concat' may have weights\nhint: multiply the "
           "weights and list all sources in one 'concat'",
           names[i]);
    facts.push_back(known_facts(*sources.back()));
  }
  const Facts whole = combine(facts, names);
  const auto indices = indices_of(whole.class_names);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::vector<std::string>& own = facts[i].class_names;
    if (own.empty() || own == whole.class_names) continue;
    std::vector<std::int64_t> labels;
    for (const std::string& name : own) labels.push_back(indices.at(name));
    sources[i] =
        std::make_shared<const Relabeled>(sources[i], std::move(labels), whole.class_names);
  }
  return std::make_shared<const Concat>(std::move(sources), whole, options.weights);
}

Facts concat_facts(const spec::dataset::Concat& options) {
  check_weights(options);
  const Catalog catalog = catalog_in_use();
  const std::vector<std::string> names = source_names(options);
  std::vector<Facts> facts;
  for (std::size_t i = 0; i < options.sources.size(); ++i)
    facts.push_back(
        in_context(names[i], [&] { return made_of(catalog.facts, options.sources[i]); }));
  return combine(facts, names);
}

}  // namespace

void register_dataset_concat(Catalog& catalog) {
  catalog.datasets["concat"] = [](const config::Stage& stage) {
    return make_concat(stage.as<spec::dataset::Concat>());
  };
  catalog.facts["concat"] = [](const config::Stage& stage) {
    return concat_facts(stage.as<spec::dataset::Concat>());
  };
}

void register_dataset_subset(Catalog& catalog) {
  catalog.datasets["subset"] = [](const config::Stage& stage) {
    return make_subset(stage.as<spec::dataset::Subset>());
  };
  catalog.facts["subset"] = [](const config::Stage& stage) {
    return subset_facts(stage.as<spec::dataset::Subset>());
  };
}

}  // namespace trainctl::data
