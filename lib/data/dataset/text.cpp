#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/machine/machine.hpp"
#include "data/core/parallel.hpp"
#include "data/core/registry.hpp"
#include "data/formats/folder_scan.hpp"
#include "data/formats/table.hpp"
#include "data/text/tokenizer.hpp"
#include "spec/options/dataset.hpp"

#include <cstring>

namespace trainctl::data {
namespace {

using spec::dataset::Text;

bool is_text(std::string_view name) { return lower_case(std::string(name)).ends_with(".txt"); }

constexpr ScannedFiles kTextFiles{is_text, "text", "texts", ".txt"};

/// The texts of the samples: those of a table, which are in memory, or files in class folders.
class Texts {
 public:
  explicit Texts(const Text& options) {
    is_folder(options.path) ? list(options) : read_table(options);
  }

  [[nodiscard]] std::int64_t size() const { return std::ssize(labels.rows) / kLabelBytes; }
  /// Returns the position of a sample for messages.
  [[nodiscard]] std::string place(std::size_t i) const {
    return root_ ? shown(root_->folder() / files_[i]) : table_->describe(places_[i]);
  }
  [[nodiscard]] std::string text(std::size_t i) const {
    if (!root_) return texts_[i];
    const FileReader file = root_->open(std::string(files_[i]));
    std::string text(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
  }

  Labels labels;

 private:
  static constexpr std::int64_t kLabelBytes = sizeof(std::int64_t);

  void list(const Text& options) {
    ENSURE(config, options.classes.empty(), "'classes' are the names of the folders in {}",
           shown(options.path));
    ImageFiles found =
        scan_class_folders(options.path, {.stamps = Stamps::leave, .of = kTextFiles}).files;
    labels = std::move(found.labels);
    files_ = std::move(found.files);
    root_.emplace(options.path);
  }

  void read_table(const Text& options) {
    csv_.delimiter = options.delimiter;
    csv_.missing_markers.clear();
    const bool parquet = lower_case(options.path.extension().string()) == ".parquet";
    table_ = parquet ? open_parquet(options.path) : open_csv(csv_, options.path);
    spec::dataset::Table wanted;
    wanted.label = options.label;
    wanted.features = {options.text};
    const TableColumns columns(wanted, *table_);
    std::vector<std::string> classes;
    std::vector<TablePlace> class_places;
    while (table_->next()) {
      texts_.push_back(table_->text(columns.place(0)).value_or(""));
      places_.push_back(table_->where(columns.place(0)));
      classes.push_back(table_->text(columns.label_column()).value_or(""));
      class_places.push_back(table_->where(columns.label_column()));
    }
    ENSURE(data, !texts_.empty(), "{} has no rows", table_->name());
    labels = class_labels(classes, options.classes,
                          [&](std::size_t i) { return table_->describe(class_places[i]); });
  }

  spec::dataset::Csv csv_;  // must outlive the table
  std::unique_ptr<TableRows> table_;
  std::vector<std::string> texts_;
  std::vector<TablePlace> places_;
  NameList files_;
  std::optional<DataRoot> root_;
};

class TextDataset final : public Dataset {
 public:
  explicit TextDataset(const Text& options)
      : tokenizer_(make_tokenizer(options.tokenizer, options.model)),
        length_(static_cast<std::size_t>(options.max_length)),
        padding_(padding_of(options, *tokenizer_)) {
    ENSURE(config, padding_ < tokenizer_->vocab_size(),
           "'padding_id' is {}, but the tokenizer has a vocabulary of {}", padding_,
           tokenizer_->vocab_size());
    Texts texts(options);
    encode(texts);
    labels_ = std::move(texts.labels);
    layout_ = layout_of(options, *tokenizer_);
  }

  static Facts facts(const Text& options) {
    const Texts texts(options);
    return {texts.size(), texts.labels.classes,
            layout_of(options, *make_tokenizer(options.tokenizer, options.model)),
            texts.labels.class_names};
  }

  [[nodiscard]] std::int64_t size() const override { return std::ssize(ends_); }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return labels_.classes; }
  [[nodiscard]] std::vector<std::string> class_names() const override {
    return labels_.class_names;
  }
  [[nodiscard]] Footprint footprint() const override {
    return {ids_.size() * sizeof ids_[0] + ends_.size() * sizeof ends_[0] + labels_.rows.size(), 0};
  }

  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      ASSERT(indices[i] >= 0 && indices[i] < size());
      const auto index = static_cast<std::size_t>(indices[i]);
      if (!rows[0].empty()) fill_tokens(index, rows[0].data() + i * length_ * sizeof(std::int64_t));
      constexpr std::size_t kLabel = sizeof(std::int64_t);
      if (rows[1].empty()) continue;
      std::memcpy(rows[1].data() + i * kLabel, labels_.rows.data() + index * kLabel, kLabel);
    }
  }

  [[nodiscard]] std::string fingerprint() const override {
    Hasher hasher;
    hasher.add(static_cast<std::uint64_t>(length_));
    hasher.add(static_cast<std::uint64_t>(padding_));
    hasher.add(static_cast<std::uint64_t>(tokenizer_->vocab_size()));
    hasher.add(std::as_bytes(std::span(ids_)));
    hasher.add(std::as_bytes(std::span(ends_)));
    hasher.add(labels_.rows);
    return hasher.hex();
  }

 private:
  static std::int64_t padding_of(const Text& options, const Tokenizer& tokenizer) {
    return options.padding_id.value_or(tokenizer.padding_id().value_or(0));
  }

  static Layout layout_of(const Text& options, const Tokenizer& tokenizer) {
    return {{"tokens",
             Dtype::i64,
             {options.max_length},
             tokenizer.vocab_size(),
             padding_of(options, tokenizer)},
            {"label", Dtype::i64, {}}};
  }

  /// Encodes the texts in several threads, and appends their first tokens in order.
  void encode(const Texts& texts) {
    constexpr std::int64_t kBlock = 64;  // texts
    constexpr std::int64_t kAheadOfEach = 4;
    using Block = std::vector<std::vector<std::uint32_t>>;
    const std::int64_t size = texts.size();
    const std::int64_t blocks = (size + kBlock - 1) / kBlock;
    const auto workers = static_cast<int>(std::min<std::int64_t>(usable_cores(), blocks));
    const InOrder range{.end = blocks, .ahead = kAheadOfEach * workers, .workers = workers};
    std::vector<Block> made(static_cast<std::size_t>(range.ahead));
    const auto block_of = [&](std::int64_t number) -> Block& {
      return made[static_cast<std::size_t>(number % range.ahead)];
    };
    run_in_order(
        range,
        [&](std::int64_t number) {
          Block& block = block_of(number);
          block.clear();
          const std::int64_t end = std::min(size, (number + 1) * kBlock);
          for (std::int64_t i = number * kBlock; i < end; ++i)
            encode(texts, static_cast<std::size_t>(i), block.emplace_back());
        },
        [&](std::int64_t number) {
          for (const auto& ids : block_of(number)) {
            ids_.insert(ids_.end(), ids.begin(), ids.end());
            ends_.push_back(ids_.size());
          }
        });
  }

  void encode(const Texts& texts, std::size_t index, std::vector<std::uint32_t>& ids) const {
    const std::string text = texts.text(index);
    if (!tokenizer_->reads_bytes())
      check_utf8(text, [&](std::uint64_t byte) {
        return fmt::format("{}: byte {} of the text", texts.place(index), byte);
      });
    tokenizer_->encode(text, ids);
    ids.resize(std::min(ids.size(), length_));
  }

  void fill_tokens(std::size_t index, std::byte* row) const {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    for (std::size_t i = 0; i < length_; ++i) {
      const std::int64_t id = begin + i < ends_[index] ? ids_[begin + i] : padding_;
      std::memcpy(row + i * sizeof id, &id, sizeof id);
    }
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::size_t length_;
  std::int64_t padding_;
  Layout layout_;
  Labels labels_;
  std::vector<std::uint32_t> ids_;  // of all texts, one after another
  std::vector<std::uint64_t> ends_;
};

}  // namespace

void register_dataset_text(Catalog& catalog) {
  catalog.datasets["text"] = maker<TextDataset, Text>();
  catalog.facts["text"] = [](const config::Stage& stage) {
    return TextDataset::facts(stage.as<Text>());
  };
}

}  // namespace trainctl::data
