#include "data/dataset/webdataset.hpp"

#include "base/json.hpp"
#include "base/url.hpp"
#include "data/core/registry.hpp"
#include "data/formats/archive.hpp"
#include "data/formats/cache_file.hpp"
#include "data/formats/manifest.hpp"
#include "data/remote/local_tier.hpp"

namespace trainctl::data {
namespace {

using spec::dataset::Webdataset;

constexpr std::uint64_t kMostLabel = 16 << 20;  // a JSON member may hold more than the label
constexpr std::int64_t kMostShards = 1'000'000;

/// Splits a name as WebDataset does: "dir/cat.1.jpg" has the key "dir/cat" and the suffix "1.jpg".
struct MemberName {
  std::string_view key;
  std::string suffix;

  explicit MemberName(std::string_view name) {
    const std::size_t base = name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1;
    const std::size_t dot = name.find('.', base);
    if (dot == std::string_view::npos || dot == base || name.substr(base, 2) == "__")
      return;  // the member belongs to no sample
    key = name.substr(0, dot);
    suffix = lower_case(name.substr(dot + 1));
  }
};

class Indexer {
 public:
  Indexer(const fs::path& shard, const Webdataset& options) : shard_(shard), options_(options) {}

  ShardIndex build() {
    index_.stamp = FileReader(shard_).stamp();
    const auto source = open_source(shard_);
    TarReader tar(*source, shard_.string());
    TarMember member;
    while (tar.next(member)) add(tar, member);
    finish_sample();
    ENSURE(data, index_.keys.size() > 0,
           "{} contains no samples: no file in the archive ends in .{}", shown(shard_),
           join(options_.image, ", ."));
    return std::move(index_);
  }

 private:
  [[nodiscard]] std::string sample() const {
    return fmt::format("{}: sample '{}'", shown(shard_), printable(key_));
  }

  void add(TarReader& tar, const TarMember& member) {
    const MemberName name(member.name);
    if (name.key.empty()) return;
    if (name.key != key_) {
      finish_sample();
      key_ = name.key;
    }
    if (name.suffix == options_.label) {
      ENSURE(data, !label_, "{} has two labels, the second at byte {}", sample(), member.offset);
      label_ = label_of(tar.read_text(kMostLabel), member);
    } else if (std::ranges::count(options_.image, name.suffix) > 0) {
      ENSURE(data, !image_,
             "{} has two images, the second at byte {}\nhint: use fewer suffixes in 'image'",
             sample(), member.offset);
      image_ = member;
    }
  }

  std::string label_of(const std::string& text, const TarMember& member) const {
    if (options_.label != "json" && !options_.label.ends_with(".json")) {
      const std::string_view label = trimmed(text);
      ENSURE(data, !label.empty(), "{} has an empty label at byte {}", sample(), member.offset);
      return std::string(label);
    }
    const Json json = parse_json(text);
    ENSURE(data, json.is_object(), "{} has a .json at byte {} that is not a JSON object", sample(),
           member.offset);
    const auto found = json.find(options_.label_key);
    ENSURE(data, found != json.end(),
           "{} has a .json at byte {} without '{}'\nhint: set 'label_key' to the key of the label",
           sample(), member.offset, options_.label_key);
    if (found->is_string()) return found->get<std::string>();
    ENSURE(data, found->is_number_integer(),
           "{} has a .json at byte {} whose '{}' is neither a string nor an integer", sample(),
           member.offset, options_.label_key);
    return found->dump();
  }

  void finish_sample() {
    if (image_ || label_) {
      ENSURE(data, image_, "{} has a label, but no image (.{})", sample(),
             join(options_.image, ", ."));
      ENSURE(data, label_,
             "{} has an image, but no label (.{})\nhint: set 'label' to the suffix of the label",
             sample(), options_.label);
      index_.keys.add(image_->name);
      index_.labels.add(*label_);
      index_.offsets.push_back(image_->offset);
      index_.sizes.push_back(image_->size);
    }
    image_.reset();
    label_.reset();
  }

  fs::path shard_;
  const Webdataset& options_;
  ShardIndex index_;
  std::string key_;
  std::optional<TarMember> image_;
  std::optional<std::string> label_;
};

std::optional<ShardIndex> read_cached(const CacheFile& cache) {
  const auto content = cache.read();
  ShardIndex index;
  if (!content || !decode(content->head, index.stamp) || !decode(content->body, index))
    return std::nullopt;
  const std::size_t count = index.keys.size();
  const bool is_sound = index.keys.is_valid() && index.labels.is_valid() &&
                        index.labels.size() == count && index.offsets.size() == count &&
                        index.sizes.size() == count;
  return is_sound ? std::optional(std::move(index)) : std::nullopt;
}

CacheFile cache_of(const fs::path& shard, const Webdataset& options) {
  std::string identity =
      "webdataset" + identity_of(shard) + '\0' + options.label + '\0' + options.label_key;
  for (const std::string& suffix : options.image) identity += '\0' + suffix;
  return CacheFile(identity);
}

/// Returns the shards of a brace range, or of a glob pattern within one folder.
std::vector<fs::path> shards_of(const fs::path& pattern) {
  if (pattern.filename().string().find_first_of("*?") != std::string::npos)
    return matching_paths(pattern);
  return expand_braces(pattern.string());
}

ImageFiles read_indices(const Webdataset& options) {
  ImageFiles files;
  std::vector<std::string> labels;
  for (const fs::path& pattern : options.shards) {
    for (const fs::path& shard : shards_of(pattern)) {
      const ShardIndex index = index_shard(shard, options);
      for (std::size_t i = 0; i < index.keys.size(); ++i) {
        files.names.add(index.keys[i]);
        labels.emplace_back(index.labels[i]);
      }
      files.file_of.insert(files.file_of.end(), index.keys.size(),
                           static_cast<std::uint32_t>(files.files.size()));
      files.offsets.insert(files.offsets.end(), index.offsets.begin(), index.offsets.end());
      files.sizes.insert(files.sizes.end(), index.sizes.begin(), index.sizes.end());
      files.files.add(identity_of(shard));
      files.stamps.push_back(index.stamp);
    }
  }
  files.labels = class_labels(labels, options.classes, [&](std::size_t i) {
    return printable(files.files[files.file_of[i]]) + ":" + printable(files.names[i]);
  });
  return files;
}

}  // namespace

std::vector<fs::path> expand_braces(const std::string& pattern) {
  const std::size_t open = pattern.find('{');
  if (open == std::string::npos) return {pattern};
  const std::size_t dots = pattern.find("..", open);
  const std::size_t close = pattern.find('}', open);
  std::int64_t first = 0;
  std::int64_t last = 0;
  const bool range = dots != std::string::npos && close != std::string::npos && dots < close &&
                     parse_index(pattern.substr(open + 1, dots - open - 1), first) &&
                     parse_index(pattern.substr(dots + 2, close - dots - 2), last);
  ENSURE(config, range && first <= last,
         "'{}' must have a range of numbers in braces, such as {{000..099}}", printable(pattern));
  ENSURE(config, last - first < kMostShards, "'{}' expands to {} shards, more than the limit of {}",
         printable(pattern), last - first + 1, kMostShards);
  const std::size_t width = dots - open - 1;
  std::vector<fs::path> shards;
  for (std::int64_t i = first; i <= last; ++i) {
    const std::string number = fmt::format("{:0{}}", i, width);
    for (fs::path& shard :
         expand_braces(pattern.substr(0, open) + number + pattern.substr(close + 1))) {
      shards.push_back(std::move(shard));
    }
    ENSURE(config, std::ssize(shards) <= kMostShards,
           "'{}' expands to more than the limit of {} shards", printable(pattern), kMostShards);
  }
  return shards;
}

ShardIndex index_shard(const fs::path& shard, const Webdataset& options) {
  ENSURE(data, shard.extension() != ".gz" && shard.extension() != ".tgz",
         "{} is compressed, but shards must be plain .tar files\nhint: unpack it with gunzip",
         shown(shard));
  const FileStamp stamp = FileReader(shard).stamp();
  const CacheFile cache = cache_of(shard, options);
  if (auto kept = read_cached(cache); kept && kept->stamp == stamp) return *std::move(kept);
  ShardIndex index = Indexer(shard, options).build();
  if (is_settled(index.stamp.mtime_ns)) cache.write(encode(index.stamp), encode(index));
  return index;
}

void register_dataset_webdataset(Catalog& catalog) {
  catalog.datasets["webdataset"] = [](const config::Stage& stage) {
    // The user names the shards, and no path inside them is opened, so links may be followed. An
    // index expires with its shard, so there is no cache to drop.
    return image_file_dataset(DataRoot("/", DataRoot::Links::follow),
                              read_indices(stage.as<Webdataset>()), {});
  };
  catalog.facts["webdataset"] = [](const config::Stage& stage) {
    return read_indices(stage.as<Webdataset>()).facts();
  };
}

}  // namespace trainctl::data
