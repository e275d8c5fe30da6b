#include "support/growth.hpp"

#include "data/core/dataset_split.hpp"
#include "data/core/pipeline.hpp"
#include "data/dataset/cifar.hpp"
#include "data/dataset/pack.hpp"
#include "data/formats/table.hpp"
#include "data/idx_files.hpp"
#include "data/pack/make_pack.hpp"
#include "data/sources.hpp"
#include "data/tar_files.hpp"
#include "data/text/tokenize.hpp"
#include "data/varied.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"
#include "support/golden_folder.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <numeric>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

/// Creates a small and a large input, each in a folder.
class TwoSizes {
 public:
  using Make = std::function<void(const TempFolder& folder, int count)>;
  using Work = std::function<void(const TempFolder& folder)>;

  TwoSizes(int count, const Make& make) {
    make(small_, count);
    make(large_, count << kDoublings);
  }

  /// Returns the growth of the cost of `work` from the small to the large folder, without anything
  /// in the cache folder.
  double growth(const Work& work) const { return growth_with_cache(work, /*clears=*/true); }

  double growth_with_cache(const Work& work, bool clears = false) const {
    const auto prepare = [&, clears](std::size_t size) {
      for (const auto& file : clears ? cache_.files() : std::vector<std::filesystem::path>())
        std::filesystem::remove(file);
      return [&work, &folder = size == 1 ? small_ : large_] { work(folder); };
    };
    return growth_per_doubling(prepare, 1);
  }

 private:
  CacheHome cache_;
  TempFolder small_;
  TempFolder large_;
};

template <class T>
std::string raw_bytes(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

std::string npy_file(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string dict = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  while ((10 + dict.size() + 1) % 64 != 0) dict += ' ';
  dict += '\n';
  return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(dict.size() & 255) +
         static_cast<char>(dict.size() >> 8) + dict + data;
}

/// Returns text with a line of seven words for each number below `count`.
std::string lines_of_text(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text +=
        "the cat " + std::to_string(i * 7919 % 1000) + " saw a dog " + char('a' + i % 26) + '\n';
  return text;
}

/// Appends pieces to a SentencePiece model, a protocol buffer whose field 1 repeats.
std::string with_pieces(std::string model, int count) {
  for (int i = 0; i < count; ++i) {
    const std::string name = "piece" + std::to_string(100'000 + i);
    const std::string score("\x15\0\0\x80\xc0", 5);  // field 2, a float: -4
    const auto size = [](const std::string& bytes) { return static_cast<char>(bytes.size()); };
    const std::string piece = std::string("\x0a") + size(name) + name + score;
    model += std::string("\x0a") + size(piece) + piece;
  }
  return model;
}

/// Opens the input of `trainctl predict` and returns its digest.
std::string open_unlabeled(const std::filesystem::path& input) {
  const Unlabeled found = unlabeled_split(input, {});
  return build_dataset(found.split, found.catalog)->fingerprint();
}

/// Generates a table of two numbers, a category and a label.
class GeneratedRows final : public TableRows {
 public:
  explicit GeneratedRows(std::int64_t count) : count_(count) {}
  [[nodiscard]] const std::vector<std::string>& columns() const override { return columns_; }
  bool next() override { return ++row_ < count_; }
  [[nodiscard]] std::optional<double> number(std::size_t column) const override {
    return static_cast<double>(row_) + static_cast<double>(column);
  }
  [[nodiscard]] std::optional<std::string> text(std::size_t column) const override {
    return columns_[column] + std::to_string(row_ % (column == 3 ? 1000 : 50));
  }
  [[nodiscard]] TablePlace where(std::size_t column) const override {
    return {row_, static_cast<std::int64_t>(column)};
  }
  [[nodiscard]] std::string describe(const TablePlace&) const override { return "generated"; }
  [[nodiscard]] const std::string& name() const override { return columns_[0]; }

 private:
  std::vector<std::string> columns_{"a", "b", "district", "y"};
  std::int64_t count_;
  std::int64_t row_ = -1;
};

}  // namespace

TEST_CASE("growth: reading an image folder is linear in its files", "[growth]") {
  const TwoSizes sizes(100, [](const TempFolder& folder, int count) {
    for (int i = 0; i < count; ++i)
      put_text(folder / ("c" + std::to_string(i % 3)) / (std::to_string(i) + ".jpg"), "x");
  });
  CHECK(sizes.growth([](const TempFolder& folder) {
    spec::dataset::ImageFolder options;
    options.root = folder.path();
    (void)build("image_folder", options);
  }) <= kMostPerDoubling);
}

TEST_CASE("growth: reading an image folder is linear in its classes", "[growth]") {
  const TwoSizes sizes(30, [](const TempFolder& folder, int count) {
    for (int i = 0; i < count; ++i)
      put_text(folder / ("c" + std::to_string(i)) / "inner" / "0.jpg", "x");
  });
  CHECK(sizes.growth([](const TempFolder& folder) {
    spec::dataset::ImageFolder options;
    options.root = folder.path();
    const auto dataset = build("image_folder", options);
    (void)dataset->class_names();
  }) <= kMostPerDoubling);
}

TEST_CASE("growth: reading an image folder from its manifest is linear in its files", "[growth]") {
  const TwoSizes sizes(100, [](const TempFolder& folder, int count) {
    for (int i = 0; i < count; ++i)
      put_text(folder / ("c" + std::to_string(i % 3)) / (std::to_string(i) + ".jpg"), "x");
    settle(folder.path());
  });
  const auto load = [](const TempFolder& folder) {
    spec::dataset::ImageFolder options;
    options.root = folder.path();
    (void)facts("image_folder", options);
    (void)build("image_folder", options)->fingerprint();
  };
  (void)sizes.growth_with_cache(load);  // the first run writes the manifests
  CHECK(sizes.growth_with_cache(load) <= kMostPerDoubling);
}

TEST_CASE("growth: reading an image list is linear in its lines, classes and groups", "[growth]") {
  const TwoSizes sizes(100, [](const TempFolder& folder, int count) {
    std::string list = "path,label,group\n";
    for (int i = 0; i < count; ++i) {
      const std::string name = std::to_string(i) + ".jpg";
      put_text(folder / name, "x");
      list += name + ",class" + std::to_string(i / 2) + ",g" + std::to_string(i / 3) + "\n";
    }
    put_text(folder / "list.csv", list);
  });
  CHECK(sizes.growth([](const TempFolder& folder) {
    spec::dataset::ImageList options;
    options.path = folder / "list.csv";
    options.group_by = "group";
    (void)build("image_list", options);
    (void)builtin_catalog().groups.at("image_list")(
        config::make_stage("dataset", "image_list", options));
  }) <= kMostPerDoubling);
}

TEST_CASE("growth: reading a tar archive is linear in its members", "[growth]") {
  const TwoSizes sizes(200, [](const TempFolder& folder, int count) {
    std::string members;
    for (int i = 0; i < count; ++i) {
      members += tar_member(std::to_string(i) + ".jpg", "x");
      members += tar_member(std::to_string(i) + ".cls", std::to_string(i % 10));
    }
    put_text(folder / "a.tar", members + tar_end());
  });
  CHECK(sizes.growth([](const TempFolder& folder) {
    spec::dataset::Webdataset options;
    options.shards = {folder / "a.tar"};
    (void)build("webdataset", options);
  }) <= kMostPerDoubling);
}

TEST_CASE("growth: reading tar archives by range or pattern is linear in their number",
          "[growth]") {
  const TwoSizes sizes(8, [](const TempFolder& folder, int count) {
    const std::string archive = tar_member("0.jpg", "x") + tar_member("0.cls", "1") + tar_end();
    for (int i = 0; i < count; ++i)
      put_text(folder / ("a-" + std::to_string(1000 + i) + ".tar"), archive);
    put_text(folder / "last", std::to_string(1000 + count - 1));
  });
  for (const bool range : {true, false}) {
    CAPTURE(range);
    CHECK(sizes.growth([&](const TempFolder& folder) {
      spec::dataset::Webdataset options;
      const std::string numbers = range ? "{1000.." + get_text(folder / "last") + "}" : "*";
      options.shards = {folder / ("a-" + numbers + ".tar")};
      (void)build("webdataset", options);
    }) <= kMostPerDoubling);
  }
}

TEST_CASE("growth: reading npy arrays is linear in their rows", "[growth]") {
  const TwoSizes sizes(20'000, [](const TempFolder& folder, int count) {
    std::vector<double> features(static_cast<std::size_t>(count) * 4, 0.5);
    std::vector<std::int64_t> labels(static_cast<std::size_t>(count));
    std::iota(labels.begin(), labels.end(), std::int64_t{0});
    const std::string rows = std::to_string(count);
    put_text(folder / "x.npy", npy_file("<f8", "(" + rows + ", 4)", raw_bytes(features)));
    put_text(folder / "y.npy", npy_file("<i8", "(" + rows + ",)", raw_bytes(labels)));
  });
  CHECK(sizes.growth([](const TempFolder& folder) {
    spec::dataset::Npy options;
    options.features = folder / "x.npy";
    options.labels = folder / "y.npy";
    (void)build("npy", options)->fingerprint();
  }) <= kMostPerDoubling);
}

TEST_CASE("growth: reading plain and gzipped idx files is linear in their images", "[growth]") {
  const TwoSizes sizes(200, [](const TempFolder& folder, int count) {
    const auto images = static_cast<std::uint32_t>(count);
    std::filesystem::create_directories(folder / "plain");
    std::filesystem::create_directories(folder / "packed");
    write_split(folder / "plain", images);
    write_file(folder / "packed" / (std::string(kImages) + ".gz"), gzip(idx_images(images)));
    write_file(folder / "packed" / (std::string(kLabels) + ".gz"), gzip(idx_labels(images)));
  });
  for (const char* kind : {"plain", "packed"}) {
    CAPTURE(kind);
    CHECK(sizes.growth([&](const TempFolder& folder) {
      spec::dataset::Mnist options;
      options.root = folder / kind;
      (void)build("mnist", options)->fingerprint();
    }) <= kMostPerDoubling);
  }
}

TEST_CASE("growth: reading CIFAR records from a file or a tar.gz is linear in their number",
          "[growth]") {
  const TwoSizes sizes(20, [](const TempFolder& folder, int count) {
    std::string records;
    for (int i = 0; i < count; ++i)
      records += static_cast<char>(i % 10) + std::string(3072, static_cast<char>(i));
    put_text(folder / "plain/1.bin", records);
    const std::string tar = tar_member("bin/1.bin", records) + tar_end();
    std::filesystem::create_directories(folder / "packed");
    write_file(folder / "packed/c.tar.gz", gzip(Bytes(tar.begin(), tar.end())));
    put_text(folder / "count", std::to_string(count));
  });
  for (const char* kind : {"plain", "packed"}) {
    CAPTURE(kind);
    CHECK(sizes.growth([&](const TempFolder& folder) {
      (void)CifarFiles(folder / kind, {.type = "cifar10",
                                       .archive = "c.tar.gz",
                                       .folder = "bin",
                                       .files = {"1.bin"},
                                       .records = std::stoi(get_text(folder / "count")),
                                       .classes = 10})
          .load()
          ->fingerprint();
    }) <= kMostPerDoubling);
  }
}

TEST_CASE("growth: opening and reading a pack is linear in its samples", "[growth]") {
  const TwoSizes sizes(1000, [](const TempFolder& folder, int count) {
    make_pack(VariedDataset(count), folder / "samples.pack", {});
  });
  CHECK(sizes.growth([](const TempFolder& folder) {
    const PackDataset pack(folder / "samples.pack");
    (void)pack.fingerprint();
    std::vector<std::byte> scratch;
    for (std::int64_t i = 0; i < pack.size(); ++i) (void)pack.read(i, scratch);
  }) <= kMostPerDoubling);
}

TEST_CASE("growth: continuing a pack is linear in the samples of its journal", "[growth]") {
  const auto stop_at_end = [](std::int64_t done, std::int64_t total) {
    ENSURE(interrupted, done < total, "stop");
  };
  const auto pack = [](const TempFolder& folder, const PackProgress& progress) {
    const VariedDataset source(std::stoi(get_text(folder / "count")));
    REQUIRE_THAT(failure_of([&] { make_pack(source, folder / "samples.pack", {}, progress); }),
                 Contains("stop"));
  };
  const TwoSizes sizes(200, [&](const TempFolder& folder, int count) {
    put_text(folder / "count", std::to_string(count));
    pack(folder, {{}, stop_at_end});
  });
  CHECK(sizes.growth([&](const TempFolder& folder) {
    pack(folder, {stop_at_end, {}});
  }) <= kMostPerDoubling);
}

TEST_CASE("growth: dividing and standardizing a table is linear in its rows", "[growth]") {
  const auto load = [](std::size_t rows) {
    return [rows] {
      const OpenTable open = [rows](const std::filesystem::path&) {
        return std::make_unique<GeneratedRows>(static_cast<std::int64_t>(rows));
      };
      spec::dataset::Table options;
      options.path = "generated";
      options.label = "y";
      options.categorical = {"district"};
      options.standardize = true;
      options.split = spec::SplitOptions{.val = 0.2, .stratify = true};
      (void)load_table(options, open);
    };
  };
  CHECK(growth_per_doubling(load, 5000) <= kMostPerDoubling);
}

TEST_CASE("growth: reading a Parquet file is linear in rows, row groups and columns", "[growth]") {
  if (!has_parquet()) skip("this build does not read Parquet");
  const CacheHome cache;
  static_assert(1 << kDoublings == 32,
                "the large files of growth_parquet.py have 32 times as much");
  spec::dataset::Parquet rows;
  rows.label = "y";
  rows.categorical = {"kind"};
  spec::dataset::Parquet columns;
  columns.label = "y";
  const auto growth = [](spec::dataset::Parquet options, const char* small, const char* large) {
    const auto load = [&](std::size_t size) {
      options.path =
          golden_folder() / fmt::format("data/growth_{}.parquet", size == 1 ? small : large);
      options.statistics_from = options.path;
      return [options] { (void)build("parquet", options)->fingerprint(); };
    };
    load(1)();  // the first run loads Arrow
    return growth_per_doubling(load, 1);
  };
  CHECK(growth(rows, "small", "large") <= kMostPerDoubling);
  CHECK(growth(columns, "narrow", "wide") <= kMostPerDoubling);
}

TEST_CASE("growth: reading a CSV with quoted fields is linear in its rows", "[growth]") {
  const TwoSizes sizes(500, [](const TempFolder& folder, int count) {
    std::string text = "a,b,y\n";
    for (int i = 0; i < count; ++i)
      text += std::to_string(i) + ",\"0.\"\"5\",class" + std::to_string(i / 2) + "\n";
    put_text(folder / "t.csv", text);
  });
  CHECK(sizes.growth([](const TempFolder& folder) {
    spec::dataset::Csv options;
    options.path = folder / "t.csv";
    options.label = "y";
    options.features = {"a"};
    (void)build("csv", options);
  }) <= kMostPerDoubling);
}

TEST_CASE("growth: reading tokens is linear in their number", "[growth]") {
  const TwoSizes sizes(20'000, [](const TempFolder& folder, int count) {
    put_text(folder / "t.bin", std::string(static_cast<std::size_t>(count) * 2, '\1'));
  });
  CHECK(sizes.growth([](const TempFolder& folder) {
    spec::dataset::Tokens options;
    options.path = folder / "t.bin";
    options.sequence_length = 16;
    const auto dataset = build("tokens", options);
    (void)dataset->fingerprint();
    std::vector<std::byte> tokens(16 * 8);
    std::vector<std::byte> targets(16 * 8);
    const std::array<std::span<std::byte>, 2> rows{tokens, targets};
    for (std::int64_t i = 0; i < dataset->size(); ++i) dataset->fill({&i, 1}, rows);
  }) <= kMostPerDoubling);
}

TEST_CASE("growth: reading a list of samples is linear in its lines", "[growth]") {
  const TwoSizes sizes(2'000, [](const TempFolder& folder, int count) {
    std::string lines;
    for (int i = count - 1; i >= 0; --i) lines += std::to_string(i) + "\n";
    put_text(folder / "samples.txt", lines);
  });
  spec::dataset::SyntheticDigits digits;
  digits.samples = 2'000 << kDoublings;
  spec::dataset::Subset options;
  options.source = config::make_stage("dataset", "synthetic_digits", digits);
  CHECK(sizes.growth([&](const TempFolder& folder) {
    options.file = folder / "samples.txt";
    (void)facts("subset", options);
  }) <= kMostPerDoubling);
}

TEST_CASE("growth: selecting and joining classes by name is linear in their number", "[growth]") {
  const TwoSizes sizes(500, [](const TempFolder& folder, int count) {
    std::string text = "a,y\n";
    for (int i = 0; i < count; ++i) text += fmt::format("{},class{}\n", i, i);
    put_text(folder / "t.csv", text);
  });
  CHECK(sizes.growth([](const TempFolder& folder) {
    spec::dataset::Csv all;
    all.path = folder / "t.csv";
    all.label = "y";
    const std::vector<std::string> names = build("csv", all)->class_names();
    spec::dataset::Subset reversed;
    reversed.source = config::make_stage("dataset", "csv", all);
    reversed.classes.assign(names.rbegin(), names.rend());
    spec::dataset::Concat both;
    both.sources = {reversed.source, config::make_stage("dataset", "subset", reversed)};
    REQUIRE(build("concat", both)->class_names() == names);
  }) <= kMostPerDoubling);
}

TEST_CASE("growth: listing images and masks is linear in their number", "[growth]") {
  const TwoSizes sizes(40, [](const TempFolder& folder, int count) {
    for (int i = 0; i < count; ++i) {
      const std::string name = std::to_string(i % 3) + "/" + std::to_string(i);
      put_text(folder / "images" / (name + ".jpg"), "x");
      put_text(folder / "masks" / (name + ".png"), "x");
    }
  });
  CHECK(sizes.growth([](const TempFolder& folder) {
    spec::dataset::ImageMasks options;
    options.images = folder / "images";
    options.masks = folder / "masks";
    options.classes = {"sky", "road"};
    (void)facts("image_masks", options);
    (void)build("image_masks", options)->fingerprint();
  }) <= kMostPerDoubling);
}

TEST_CASE("growth: listing the images to predict is linear in a folder and in a list", "[growth]") {
  const TwoSizes sizes(50, [](const TempFolder& folder, int count) {
    std::string list;
    for (int i = 0; i < count; ++i) {
      const std::string name = std::to_string(i % 3) + "/" + std::to_string(i) + ".jpg";
      put_text(folder / "images" / name, "x");
      list += "images/" + name + "\n";
    }
    put_text(folder / "list.txt", list);
  });
  for (const char* input : {"images", "list.txt"}) {
    CAPTURE(input);
    CHECK(sizes.growth([&](const TempFolder& folder) { (void)open_unlabeled(folder / input); }) <=
          kMostPerDoubling);
  }
}

TEST_CASE("growth: reading texts from a table is linear in rows, classes and length", "[growth]") {
  const TwoSizes sizes(500, [](const TempFolder& folder, int count) {
    std::string rows = "label,text\n";
    for (int i = 0; i < count; ++i)
      rows += "class" + std::to_string(i / 4) + ",the cat saw a dog\n";
    put_text(folder / "many.csv", rows);
    const std::string words(static_cast<std::size_t>(count) * 200, 'a');
    put_text(folder / "long.csv", "label,text\n0," + words + "\n1," + words + "\n");
  });
  for (const char* table : {"many.csv", "long.csv"}) {
    CAPTURE(table);
    CHECK(sizes.growth([&](const TempFolder& folder) {
      spec::dataset::Text options;
      options.path = folder / table;
      options.max_length = 16;
      (void)facts("text", options);
      (void)build("text", options)->fingerprint();
    }) <= kMostPerDoubling);
  }
}

TEST_CASE("growth: reading texts from folders is linear in their files", "[growth]") {
  const TwoSizes sizes(50, [](const TempFolder& folder, int count) {
    for (int i = 0; i < count; ++i)
      put_text(folder / ("c" + std::to_string(i / 5)) / (std::to_string(i) + ".txt"), "a cat");
  });
  CHECK(sizes.growth([](const TempFolder& folder) {
    spec::dataset::Text options;
    options.path = folder.path();
    options.max_length = 8;
    const auto dataset = build("text", options);
    (void)dataset->fingerprint();
    std::vector<std::byte> tokens(8 * 8);
    std::vector<std::byte> label(8);
    const std::array<std::span<std::byte>, 2> rows{tokens, label};
    for (std::int64_t i = 0; i < dataset->size(); ++i) dataset->fill({&i, 1}, rows);
  }) <= kMostPerDoubling);
}

namespace {

double growth_of_tokenizing(const TwoSizes& sizes, const char* input, TokenizeOptions options) {
  return sizes.growth([&](const TempFolder& folder) {
    options.inputs = {folder / input};
    if (std::filesystem::is_directory(folder / input))
      options.inputs.assign(std::filesystem::directory_iterator(folder / input), {});
    options.out = folder / "tokens.bin";
    options.val_out = folder / "val.bin";
    (void)tokenize(options, [](std::int64_t, std::int64_t) {});
    (void)read_token_record(options.out);
  });
}

double growth_of_encoding(const Tokenizer& tokenizer) {
  const auto encode = [&](std::size_t words) {
    std::string line = lines_of_text(static_cast<int>(words));
    std::ranges::replace(line, '\n', ' ');
    return [&tokenizer, line = std::move(line)] {
      check_utf8(line, [](std::uint64_t) { return std::string(); });
      std::vector<std::uint32_t> ids;
      tokenizer.encode(line, ids);
    };
  };
  return growth_per_doubling(encode, 300);
}

}  // namespace

TEST_CASE("growth: tokenizing bytes is linear in the lines and number of texts", "[growth]") {
  const TwoSizes sizes(40, [](const TempFolder& folder, int count) {
    put_text(folder / "bytes.txt", lines_of_text(count * 200));
    for (int i = 0; i < count; ++i) put_text(folder / "many" / std::to_string(i), "a cat\n");
  });
  CHECK(growth_of_tokenizing(sizes, "bytes.txt", {}) <= kMostPerDoubling);
  CHECK(growth_of_tokenizing(sizes, "many", {}) <= kMostPerDoubling);
  const auto bytes = make_tokenizer(spec::dataset::TokenizerType::bytes, {});
  CHECK(growth_of_encoding(*bytes) <= kMostPerDoubling);
}

TEST_CASE("growth: tokenizing with SentencePiece is linear in lines and their length", "[growth]") {
  if (!has_sentencepiece()) skip("this build does not read SentencePiece models");
  constexpr auto kType = spec::dataset::TokenizerType::sentencepiece;
  const std::filesystem::path models = golden_folder() / "data/text";
  const TwoSizes sizes(40, [](const TempFolder& folder, int count) {
    put_text(folder / "pieces.txt", lines_of_text(count * 40));
  });
  CHECK(growth_of_tokenizing(sizes, "pieces.txt",
                             {.tokenizer = kType, .model = models / "bpe.model"}) <=
        kMostPerDoubling);
  for (const char* model : {"bpe.model", "unigram.model"}) {
    CAPTURE(model);
    CHECK(growth_of_encoding(*make_tokenizer(kType, models / model)) <= kMostPerDoubling);
  }
}

TEST_CASE("growth: opening a SentencePiece model is linear in its vocabulary", "[growth]") {
  if (!has_sentencepiece()) skip("this build does not read SentencePiece models");
  const std::string golden = get_text(golden_folder() / "data/text/plain.model");
  const TwoSizes sizes(500, [&](const TempFolder& folder, int count) {
    put_text(folder / "t.model", with_pieces(golden, count));
  });
  CHECK(sizes.growth([](const TempFolder& folder) {
    const auto tokenizer =
        make_tokenizer(spec::dataset::TokenizerType::sentencepiece, folder / "t.model");
    REQUIRE(tokenizer->vocab_size() > 500);
  }) <= kMostPerDoubling);
}

TEST_CASE("growth: dividing a data set is linear in its samples, classes and groups", "[growth]") {
  const auto run = [](std::size_t samples, bool stratify, bool grouped) {
    std::vector<std::int64_t> labels(stratify ? samples : 0);
    for (std::size_t i = 0; i < labels.size(); ++i)
      labels[i] = static_cast<std::int64_t>(i % (samples / 10));
    GroupColumn groups;
    for (std::size_t i = 0; grouped && i < samples; ++i) groups.add("g" + std::to_string(i / 4));
    (void)divide({.val = 0.2, .test = 0.1, .stratify = stratify},
                 static_cast<std::int64_t>(samples), labels, groups.take(), {});
  };
  for (const bool grouped : {false, true}) {
    for (const bool stratify : {false, true}) {
      CAPTURE(grouped, stratify);
      const auto prepare = [&](std::size_t samples) {
        return [&run, samples, stratify, grouped] { run(samples, stratify, grouped); };
      };
      CHECK(growth_per_doubling(prepare, grouped ? 1'000 : 4'000) <= kMostPerDoubling);
    }
  }
}
