#pragma once

#include "config/schema/describe.hpp"
#include "spec/experiment/enums.hpp"
#include "spec/experiment/split.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::spec::dataset {

struct ImageFolder {
  static constexpr auto kSummary =
      "Images in one folder per class, as torchvision's ImageFolder: root/cat/1.jpg; classes are "
      "sorted by name.";

  std::filesystem::path root;
  bool allow_empty = false;
  bool follow_links = false;

  static void describe(auto& options) {
    options.field("root", &ImageFolder::root, {.required = true, .example = "data/imagenet/train"},
                  "Folder with the class folders; JPEG, PNG, WebP, BMP and TIFF files are found by "
                  "their suffix. 16-bit gray PNG and TIFF images are read as their upper 8 bits.");
    options.field("allow_empty", &ImageFolder::allow_empty,
                  "Accepts class folders without images.");
    options.field("follow_links", &ImageFolder::follow_links,
                  "Follows symbolic links, wherever they point; false: a link is an error.");
  }
};

struct ImageList {
  static constexpr auto kSummary =
      "Images listed in a table: a path and a class, or a path and several numbers, per line.";

  std::filesystem::path path;
  std::optional<std::filesystem::path> root;
  std::vector<std::string> classes;
  std::optional<std::int64_t> rows;
  bool follow_links = false;
  std::optional<std::string> group_by = {};  // set by apply_split(), never by a file

  static void describe(auto& options) {
    options.field("path", &ImageList::path, {.required = true, .example = "data/birds/train.csv"},
                  "The list: .csv with commas, .tsv or .txt with tabs. A first line without an "
                  "image name is the header. If each line has one label, it is a class (a name or "
                  "a number); if each line has several labels, they are numbers, one per target. "
                  "16-bit gray PNG and TIFF images are read as their upper 8 bits.");
    options.field("root", &ImageList::root, {.example = "data/birds/images"},
                  "Folder that the listed paths are relative to; absent: the folder of the list.");
    options.field("classes", &ImageList::classes, {.example = "[crow, owl]"},
                  "Class names in the order of their indices; absent: the names in the list, "
                  "sorted. Set it if train and val do not contain the same classes.");
    options.field("rows", &ImageList::rows, {.at_least = 1, .example = "50000"},
                  "Number of samples that the list must have, to detect a truncated file.");
    options.field(
        "follow_links", &ImageList::follow_links,
        "Follows symbolic links and paths that lead out of the root; false: they are an error.");
  }
};

struct ImageMasks {
  static constexpr auto kSummary =
      "Pictures with the class of each pixel, for the task segmentation: a folder of images and "
      "one of masks with the same names, images/a/1.jpg and masks/a/1.png.";

  std::filesystem::path images;
  std::filesystem::path masks;
  std::vector<std::string> classes;

  static void describe(auto& options) {
    options.field("images", &ImageMasks::images,
                  {.required = true, .example = "data/scenes/train/images"},
                  "Folder of the images; subfolders are searched, too.");
    options.field("masks", &ImageMasks::masks,
                  {.required = true, .example = "data/scenes/train/masks"},
                  "Folder of the masks: gray images of the same size, whose values are the numbers "
                  "of the classes, from 0. Pixels of 255 are ignored.");
    options.field("classes", &ImageMasks::classes,
                  {.required = true, .not_empty = true, .example = "[background, road]"},
                  "Class names in the order of their numbers.");
  }
};

/// Options of the data sets in MNIST's IDX format: four files, plain or gzipped, in one folder.
struct Idx {
  std::filesystem::path root;
  Split split = Split::train;

  static void describe(auto& options) {
    options.field("root", &Idx::root, {.required = true, .example = "data/mnist"},
                  "Folder with the four IDX files, plain or .gz.");
    options.field("split", &Idx::split, "train: 60,000 samples; test: 10,000 samples.");
  }
};

struct Mnist : Idx {
  static constexpr auto kSummary =
      "MNIST: Handwritten digits, 28x28 gray, 10 classes (LeCun et al. 1998).";
};

struct FashionMnist : Idx {
  static constexpr auto kSummary =
      "Fashion-MNIST: Articles of clothing, 28x28 gray, 10 classes (Xiao et al. 2017).";
};

/// Options of CIFAR-10 and CIFAR-100.
struct Cifar {
  std::filesystem::path root;
  Split split = Split::train;

  static void describe(auto& options) {
    options.field("root", &Cifar::root, {.required = true, .example = "data/cifar10"},
                  "Folder with the binary version: the .tar.gz or .tar archive, or its .bin files, "
                  "with or without the subfolder of the archive.");
    options.field("split", &Cifar::split, "train: 50,000 samples; test: 10,000 samples.");
  }
};

struct Cifar10 : Cifar {
  static constexpr auto kSummary =
      "CIFAR-10: Photographs, 32x32 RGB, 10 classes (Krizhevsky 2009).";
};

enum class CifarLabel { fine, coarse };
constexpr std::array<const char*, 2> enum_names(CifarLabel) { return {"fine", "coarse"}; }

struct Cifar100 : Cifar {
  static constexpr auto kSummary =
      "CIFAR-100: Photographs, 32x32 RGB, 100 classes in 20 groups (Krizhevsky 2009).";

  CifarLabel label = CifarLabel::fine;

  static void describe(auto& options) {
    Cifar::describe(options);
    options.field("label", &Cifar100::label,
                  "fine: the 100 classes; coarse: the 20 groups of five.");
  }
};

struct Npy {
  static constexpr auto kSummary =
      "Arrays from numpy.save: images or features, and labels. Only images are memory-mapped.";

  std::optional<std::filesystem::path> images;
  std::optional<std::filesystem::path> features;
  std::filesystem::path labels;
  std::optional<std::int64_t> classes;

  static void describe(auto& options) {
    options.field("images", &Npy::images, {.example = "data/x_train.npy"},
                  "Images, uint8 of shape (N, H, W) or (N, H, W, C).");
    options.field(
        "features", &Npy::features, {.example = "data/x_train.npy"},
        "Features instead of images, of any shape (N, ...) and number type; converted to float32.");
    options.field("labels", &Npy::labels, {.required = true, .example = "data/y_train.npy"},
                  "Labels: whole numbers of shape (N) are classes; floats of shape (N) or (N, K) "
                  "are targets.");
    options.field("classes", &Npy::classes, {.at_least = 1, .at_most = 1e9, .example = "10"},
                  "Number of classes; absent: the highest label + 1.");
  }
};

enum class LabelType { category, number };
constexpr std::array<const char*, 2> enum_names(LabelType) { return {"class", "number"}; }

enum class Missing { error, mean, constant, drop };
constexpr std::array<const char*, 4> enum_names(Missing) {
  return {"error", "mean", "constant", "drop"};
}

/// Options of tables in any file format.
struct Table {
  std::filesystem::path path;
  std::string label;
  LabelType label_type = LabelType::category;
  std::vector<std::string> features;
  std::vector<std::string> categorical;
  std::vector<std::string> classes;
  Missing missing = Missing::error;
  double missing_value = 0;
  bool standardize = false;
  std::optional<std::filesystem::path> statistics_from;
  std::optional<std::int64_t> rows;
  std::optional<SplitOptions> split = {};  // set by apply_split(), never by a file

  static void describe(auto& options) {
    options.field("path", &Table::path, {.required = true, .example = "data/house/train.csv"},
                  "The table.");
    options.field("label", &Table::label, {.required = true, .not_empty = true, .example = "price"},
                  "Name of the column with the label.");
    options.field("label_type", &Table::label_type,
                  "class: names, or integers from 0; number: a regression target.");
    options.field("features", &Table::features, {.example = "[rooms, area]"},
                  "Names of the feature columns, in order; absent: all but the label.");
    options.field("categorical", &Table::categorical, {.example = "[district]"},
                  "Categorical feature columns: each is one-hot encoded.");
    options.field("classes", &Table::classes, {.example = "[no, yes]"},
                  "Class names in the order of their indices; required if the names look like "
                  "numbers. Absent: the names in statistics_from, sorted.");
    options.field("missing", &Table::missing,
                  "What to do if a number is missing. error: the run fails; mean: use the mean of "
                  "the column; constant: use missing_value; drop: drop the row.");
    options.field("missing_value", &Table::missing_value, "The value for 'missing: constant'.");
    options.field("standardize", &Table::standardize,
                  "Standardizes each numeric column: subtracts its mean and divides by its "
                  "standard deviation.");
    options.field("statistics_from", &Table::statistics_from, {.example = "data/house/train.csv"},
                  "Path of the training table, the same in every split: means, deviations, "
                  "categories and class names are computed from it. Not needed with dataset.split: "
                  "means and deviations then come from the rows of train, names from all rows.");
    options.field("rows", &Table::rows, {.at_least = 1, .example = "20640"},
                  "Number of rows that the table must have, to detect a truncated file.");
  }
};

struct Csv : Table {
  static constexpr auto kSummary =
      "A table of comma- or tab-separated text with a header line: numbers and categories.";

  std::string delimiter = ",";
  std::vector<std::string> missing_markers{"", "NA", "NaN", "nan", "null"};

  static void describe(auto& options) {
    Table::describe(options);
    options.field("delimiter", &Csv::delimiter, {.not_empty = true},
                  "Character that separates fields, one byte; \"\\t\" for tabs.");
    options.field("missing_markers", &Csv::missing_markers, "Texts that mark a missing value.");
  }
};

struct Parquet : Table {
  static constexpr auto kSummary =
      "A table in a Parquet file: numbers and categories (builds with Arrow).";
};

enum class TokenType { uint16, uint32 };
constexpr std::array<const char*, 2> enum_names(TokenType) { return {"uint16", "uint32"}; }

struct Tokens {
  static constexpr auto kSummary =
      "Token ids in one file; a sample is a window of tokens, its targets the same window shifted "
      "by one token.";

  std::filesystem::path path;
  TokenType dtype = TokenType::uint16;
  std::int64_t sequence_length = 0;
  std::optional<std::int64_t> stride;
  std::optional<std::int64_t> vocab_size;
  std::int64_t header_bytes = 0;

  static void describe(auto& options) {
    options.field("path", &Tokens::path,
                  {.required = true, .example = "data/shakespeare/train.bin"},
                  "File of little-endian token ids without separators.");
    options.field("dtype", &Tokens::dtype, "Data type of the token ids in the file.");
    options.field("sequence_length", &Tokens::sequence_length,
                  {.required = true, .at_least = 1, .at_most = 16'777'216, .example = "1024"},
                  "Tokens per sample; the targets are shifted by one token.");
    options.field("stride", &Tokens::stride, {.at_least = 1, .example = "512"},
                  "Tokens from the start of one sample to the next; absent: sequence_length.");
    options.field(
        "vocab_size", &Tokens::vocab_size,
        {.at_least = 2, .at_most = 4'294'967'296, .example = "50257"},
        "Size of the vocabulary; a token id of this size or more is an error. Absent: the "
        "size that `trainctl data tokenize` recorded next to the file, if it did.");
    options.field("header_bytes", &Tokens::header_bytes, {.at_least = 0},
                  "Bytes before the first token.");
  }
};

enum class TokenizerType { bytes, sentencepiece };
constexpr std::array<const char*, 2> enum_names(TokenizerType) {
  return {"bytes", "sentencepiece"};
}

struct Text {
  static constexpr auto kSummary =
      "Texts with one class each, as rows of token ids of one length: a table with columns for "
      "text and label, or one folder of text files per class.";

  std::filesystem::path path;
  std::string text = "text";
  std::string label = "label";
  std::string delimiter = ",";
  std::vector<std::string> classes;
  TokenizerType tokenizer = TokenizerType::bytes;
  std::optional<std::filesystem::path> model;
  std::int64_t max_length = 0;
  std::optional<std::int64_t> padding_id;

  static void describe(auto& options) {
    options.field(
        "path", &Text::path, {.required = true, .example = "data/reviews/train.csv"},
        "A .csv or .parquet table, or a folder that contains one folder of .txt files for "
        "each class; classes of folders are sorted by name.");
    options.field("text", &Text::text, {.not_empty = true}, "Column of a table with the text.");
    options.field("label", &Text::label, {.not_empty = true}, "Column of a table with the class.");
    options.field("delimiter", &Text::delimiter, {.not_empty = true},
                  "Character that separates the fields of a .csv table, one byte.");
    options.field("classes", &Text::classes, {.example = "[negative, positive]"},
                  "Class names in the order of their indices; absent: the names found, sorted. Set "
                  "it if train and val do not contain the same classes.");
    options.field("tokenizer", &Text::tokenizer,
                  "bytes: each byte of the text is a token, 0 to 255; sentencepiece: the pieces of "
                  "a SentencePiece model.");
    options.field("model", &Text::model, {.example = "data/reviews/tokenizer.model"},
                  "The SentencePiece model, for example from `trainctl data tokenize --train`.");
    options.field("max_length", &Text::max_length,
                  {.required = true, .at_least = 1, .at_most = 16'777'216, .example = "256"},
                  "Tokens per sample: of longer texts, only the first tokens are read; shorter "
                  "ones are padded at the end.");
    options.field("padding_id", &Text::padding_id, {.at_least = 0, .example = "0"},
                  "Token id of the padding; absent: the padding piece of the model, else 0.");
  }
};

struct Webdataset {
  static constexpr auto kSummary =
      "Images in tar shards of the webdataset library, not unpacked, shuffled across all shards.";

  std::vector<std::filesystem::path> shards;
  std::vector<std::string> image{"jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff"};
  std::string label = "cls";
  std::string label_key = "label";
  std::vector<std::string> classes;

  static void describe(auto& options) {
    options.field(
        "shards", &Webdataset::shards,
        {.required = true, .not_empty = true, .example = "[\"data/train-{000..146}.tar\"]"},
        "The .tar files in order; {000..099} expands to a range of numbers, * and ? match file "
        "names of the folder or bucket, sorted.");
    options.field("image", &Webdataset::image, {.not_empty = true},
                  "Suffixes of the members that are images. 16-bit gray PNG and TIFF images are "
                  "read as their upper 8 bits.");
    options.field("label", &Webdataset::label, {.not_empty = true},
                  "Suffix of the members that hold the label: cls, txt or json.");
    options.field("label_key", &Webdataset::label_key, {.not_empty = true},
                  "Key of the label in a json member.");
    options.field("classes", &Webdataset::classes, {.example = "[crow, owl]"},
                  "Class names in the order of their indices; absent: the names found, sorted.");
  }
};

enum class OnStale { fail, ignore };
constexpr std::array<const char*, 2> enum_names(OnStale) { return {"fail", "ignore"}; }

struct Pack {
  static constexpr auto kSummary = "Images in one file, written by `trainctl data pack`.";

  std::filesystem::path path;
  config::Stage source;
  OnStale on_stale = OnStale::fail;

  static void describe(auto& options) {
    options.field("path", &Pack::path, {.required = true, .example = "data/train.pack"},
                  "The pack file.");
    options.stage("source", &Pack::source, "dataset",
                  "The data set that was packed; if its samples differ from those of the pack, the "
                  "run fails. Absent: the source recorded in the pack.");
    options.field("on_stale", &Pack::on_stale,
                  "What to do if the recorded source exists and has changed: fail or ignore.");
  }
};

struct Subset {
  static constexpr auto kSummary =
      "Some samples of another data set: listed ones, those of some classes, or a random fraction.";

  config::Stage source;
  std::vector<std::int64_t> indices;
  std::optional<std::array<std::int64_t, 2>> range;
  std::optional<std::filesystem::path> file;
  std::vector<std::string> classes;
  std::optional<double> fraction;
  bool stratify = false;
  std::uint64_t seed = 0;

  static void describe(auto& options) {
    options.stage("source", &Subset::source, "dataset",
                  {.required = true, .example = "{type: mnist, root: data/mnist}"},
                  "The data set that contains the samples.");
    options.field("indices", &Subset::indices, {.at_least = 0, .example = "[0, 5, 7]"},
                  "Numbers of the samples, from 0; the subset has this order.");
    options.field("range", &Subset::range, {.at_least = 0, .example = "[0, 1000]"},
                  "First sample, and the sample after the last one.");
    options.field("file", &Subset::file, {.example = "data/clean.txt"},
                  "Text file with the number of one sample per line; the subset has this order.");
    options.field("classes", &Subset::classes, {.example = "[cat, dog]"},
                  "Keeps only the samples of these classes, which get the labels 0, 1, ... in this "
                  "order. Numbers, if the source does not name its classes.");
    options.field("fraction", &Subset::fraction, {.above = 0, .at_most = 1, .example = "0.1"},
                  "Random fraction of the samples that the other options select.");
    options.field("stratify", &Subset::stratify,
                  "With 'fraction': draws the same fraction of each class.");
    options.field("seed", &Subset::seed, {.at_least = 0},
                  "Seed of 'fraction'; independent of the run's seed.");
  }
};

struct Concat {
  static constexpr auto kSummary =
      "The samples of several data sets with the same fields and classes, as torch's "
      "ConcatDataset; optionally drawn in given proportions.";

  std::vector<config::Stage> sources;
  std::vector<double> weights;

  static void describe(auto& options) {
    options.stages("sources", &Concat::sources, "dataset",
                   {.required = true,
                    .not_empty = true,
                    .example = "[{type: mnist, root: data/mnist}, synthetic_digits]"},
                   "The data sets. Classes with the same name are the same class.");
    options.field("weights", &Concat::weights, {.at_least = 0, .example = "[3, 1]"},
                  "Proportions of the sources in an epoch of training, whose length is the number "
                  "of all samples. A source repeats or omits samples to get its share. Absent: "
                  "every sample once.");
  }
};

struct SyntheticDigits {
  static constexpr auto kSummary =
      "Digits rendered by trainctl itself: 28x28 gray, 10 classes, 60,000 + 10,000 samples; "
      "nothing to download.";

  Split split = Split::train;
  std::optional<std::int64_t> samples;
  std::uint64_t seed = 0;

  static void describe(auto& options) {
    options.field("split", &SyntheticDigits::split,
                  "train: 60,000 samples; test: 10,000 other samples.");
    options.field("samples", &SyntheticDigits::samples,
                  {.at_least = 1, .at_most = 1'000'000, .example = "2000"},
                  "Number of samples; absent: the whole split.");
    options.field("seed", &SyntheticDigits::seed, {.at_least = 0},
                  "Seed of the rendering; independent of the run's seed.");
  }
};

struct SyntheticImages {
  static constexpr auto kSummary =
      "Random pixels with random labels, generated on the fly, to measure throughput.";

  int height = 224;
  int width = 224;
  int channels = 3;
  std::int64_t classes = 1000;
  std::int64_t samples = 10'000;
  Split split = Split::train;
  std::uint64_t seed = 0;

  static void describe(auto& options) {
    options.field("height", &SyntheticImages::height, {.at_least = 1, .at_most = 16'384},
                  "Height in pixels.");
    options.field("width", &SyntheticImages::width, {.at_least = 1, .at_most = 16'384},
                  "Width in pixels.");
    options.field("channels", &SyntheticImages::channels, {.at_least = 1, .at_most = 16},
                  "1 for gray, 3 for RGB.");
    options.field("classes", &SyntheticImages::classes, {.at_least = 1, .at_most = 1e9},
                  "Number of classes.");
    options.field("samples", &SyntheticImages::samples, {.at_least = 1, .at_most = 1e9},
                  "Number of samples.");
    options.field("split", &SyntheticImages::split, "train and test have different samples.");
    options.field("seed", &SyntheticImages::seed, {.at_least = 0},
                  "Seed of the pixels; independent of the run's seed.");
  }
};

struct SyntheticPhotographs {
  static constexpr auto kSummary =
      "Generated 500x375 JPEG photographs in a cache folder, 8 classes, to measure data loading.";

  Split split = Split::train;
  std::int64_t samples = 1000;
  std::optional<std::filesystem::path> folder;

  static void describe(auto& options) {
    options.field("split", &SyntheticPhotographs::split, "train and test have different samples.");
    options.field("samples", &SyntheticPhotographs::samples, {.at_least = 1, .at_most = 1'000'000},
                  "Number of samples; 1,000 samples take about 41 MB.");
    options.field(
        "folder", &SyntheticPhotographs::folder, {.example = "data/photographs"},
        "Folder of the files; absent: trainctl/photographs in $XDG_CACHE_HOME or ~/.cache.");
  }
};

}  // namespace trainctl::spec::dataset
