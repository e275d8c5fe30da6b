#include "study/init/starter.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "config/schema/dump.hpp"
#include "data/dataset/mnist.hpp"
#include "data/formats/file_reader.hpp"
#include "data/text/tokenize.hpp"
#include "spec/options/dataset.hpp"

#include <algorithm>

namespace trainctl::study {
namespace {

constexpr const char* kMnistYaml = R"(
dataset:
  train:
    type: mnist
    root: {0}
    split: train
    # The mean and standard deviation of the training pixels.
    transforms: [{{ type: normalize, mean: [0.1307], std: [0.3081] }}]
  # The test images of MNIST are used for validation.
  val: {{ type: mnist, root: {0}, split: test, transforms: "${{dataset.train.transforms}}" }}

loader: {{ batch_size: 64 }}
# A multilayer perceptron with two hidden layers; `model: lenet` is a convolutional network.
model: {{ type: mlp, hidden: [128, 64] }}
loss: cross_entropy
optimizer: {{ type: adam, lr: 0.001 }}
metrics: [accuracy]
trainer: {{ max_epochs: 2 }}
)";

Starter mnist_starter(const StarterRequest& request) {
  spec::dataset::Mnist options;
  options.root = request.data;
  const data::Facts train = data::IdxFiles(options, "mnist").facts();
  options.split = spec::Split::test;
  const data::Facts test = data::IdxFiles(options, "mnist").facts();
  return {{{"images", "28x28 pixels, gray, 10 classes"},
           {"training", counted(train.samples, "image")},
           {"validation", counted(test.samples, "image")}},
          starter_head(request) + fmt::format(kMnistYaml, path_value(request.data, request.file))};
}

constexpr const char* kTextYaml = R"(
dataset:
  train:
    type: tokens
    path: {0}
    # {1} in sequences of {2}.
    sequence_length: {2}
    # Each byte of the text is a token. This command, run where `init` was run, writes the tokens:
    # {6}
  # The last tenth of the text is for validation.
  val: {{ type: tokens, path: {3}, sequence_length: {2} }}

{4}# A small GPT-2: 4 layers of width 128. GPT-2 itself has 12 layers, 12 heads and width 768.
model: {{ type: gpt, layers: 4, heads: 4, width: 128, context: {2}, dropout: 0.1 }}
loss: cross_entropy
optimizer: {{ type: adamw, lr: 0.001, weight_decay: 0.1, betas: [0.9, 0.95] }}
# The learning rate rises in the first tenth of the run and then falls to 0.
scheduler: {{ type: cosine_annealing_lr, interval: step, warmup: 0.1 }}
metrics: [perplexity]
trainer: {{ max_epochs: {5}, gradient_clip_val: 1.0 }}
)";

Starter text_starter(const StarterRequest& request) {
  const auto bytes = static_cast<long long>(data::FileReader(request.data).size());
  ENSURE(data, bytes >= 2000, "{} has {}, but a text of at least 2,000 bytes is needed",
         data::shown(request.data), counted(bytes, "byte"));
  (void)start_of_text(request.data);
  // Rounded as by `data tokenize`, which the command runs.
  const auto train = static_cast<long long>(data::first_val_byte(bytes, 0.1));
  const long long val = bytes - train;
  long long length = 128;
  while (val <= 8 * length) length /= 2;  // at least eight sequences for validation
  const std::string stem = (request.file.parent_path() / request.data.stem()).string();
  const std::array files{stem + "_train.bin", stem + "_val.bin"};
  for (const std::string& file : files)
    ENSURE(config, request.force || !fs::exists(fs::symlink_status(file)),
           "{} already exists\nhint: allow to replace it with --force", data::shown(file));
  std::vector<std::string> words{"trainctl", "data",      "tokenize", "--out",
                                 files[0],   "--val-out", files[1]};
  if (request.force) words.emplace_back("--force");
  // The name may begin with '-'.
  words.insert(words.end(), {"--", request.data.string()});
  const std::string command = shell_command(words);
  return {{{"tokens", "the bytes of the text (256 possible values)"},
           {"training", counted(train, "token")},
           {"validation", counted(val, "token")}},
          starter_head(request) + fmt::format(kTextYaml, path_value(files[0], request.file),
                                              counted(train, "token"), length,
                                              path_value(files[1], request.file),
                                              starter_loader(train / length, 32, {}),
                                              train < 10'000'000 ? 10 : 1, printable(command)),
          {command}};
}

}  // namespace

std::string start_of_text(const fs::path& path) {
  const data::FileReader file(path);
  std::string start(std::min<std::uint64_t>(file.size(), 65'536), '\0');
  file.read(0, std::as_writable_bytes(std::span(start)));
  const std::size_t zero = start.find('\0');
  ENSURE(data, zero == std::string::npos, "{} must be a text in UTF-8, but byte {} is 0",
         data::shown(path), with_thousands(static_cast<long long>(zero)));
  return start;
}

void check_name(const std::string& text, const std::string& what) {
  std::string_view rest = text;
  for (std::size_t length = 0; !rest.empty(); rest.remove_prefix(length)) {
    length = utf8_length(rest);
    ENSURE(data, length > 0 && !rest.starts_with("${secret:"),
           "{} '{}' must be valid UTF-8 without '${{secret:'", what, printable(text));
  }
}

std::string yaml_value(const std::string& text) {
  check_name(text, "the name");
  return config::flow_text(config::Node::scalar(text, true));
}

std::string path_value(const fs::path& path, const fs::path& file) {
  if (file.parent_path().empty() || path.is_absolute()) return yaml_value(path.string());
  const fs::path folder = fs::absolute(file).lexically_normal().parent_path();
  const fs::path whole = fs::absolute(path).lexically_normal();
  return yaml_value(whole.lexically_relative(folder).string());
}

std::string starter_head(const StarterRequest& request) {
  const fs::path name = fs::absolute(request.data / "").lexically_normal().parent_path().stem();
  return fmt::format(
      "# A first experiment with {}, written by `trainctl init {}`.\n"
      "# `trainctl explain KEY` describes a key, and `trainctl show-config --full` lists all.\n"
      "name: {}\nseed: 42\n",
      data::shown(request.data), request.kind,
      yaml_value(name.empty() ? request.kind : name.string()));
}

std::string starter_loader(std::int64_t samples, std::int64_t most, const ClassSizes& classes) {
  std::int64_t batch = 2;
  while (batch * 2 <= most && batch * 20 <= samples) batch *= 2;
  if (classes.least == 0 || classes.most < 3 * classes.least)
    return fmt::format("loader: {{ batch_size: {} }}\n", batch);
  return fmt::format(
      "# The largest class is {:.1f} times as large as the smallest: all are drawn equally often.\n"
      "loader: {{ batch_size: {}, sampler: class_balanced }}\n",
      static_cast<double>(classes.most) / static_cast<double>(classes.least), batch);
}

Starter make_starter(StarterRequest request) {
  const std::string& kind = request.kind;
  const std::vector<std::string> kinds(kStarterKinds.begin(), kStarterKinds.end());
  const auto near = nearest(kind, kinds);
  ENSURE(config, std::ranges::find(kinds, kind) != kinds.end(), "unknown kind '{}'; {}",
         printable(kind),
         near ? fmt::format("did you mean '{}'?", *near) : "the kinds are: " + join(kinds, ", "));
  ENSURE(config, request.target.empty() || kind == "tabular",
         "--target names a column of a table, but the kind is {}\nhint: remove --target", kind);
  if (request.data.empty() && kind == "mnist") request.data = "data/mnist";
  std::error_code failure;  // one of them may not exist
  ENSURE(config, !fs::equivalent(request.data, request.file, failure),
         "{} would replace the data\nhint: choose another --out", data::shown(request.file));
  if (kind == "mnist") return mnist_starter(request);
  const char* expected = kind == "text"      ? "a text file"
                         : kind == "tabular" ? "a CSV or Parquet file whose columns have names"
                                             : "a folder with one folder of images per class";
  ENSURE(config, !request.data.empty(), "{0} needs DATA: {1}\nhint: trainctl init {0} PATH", kind,
         expected);
  const auto found = fs::status(request.data).type();
  ENSURE(data,
         found == (kind == "image-folder" ? fs::file_type::directory : fs::file_type::regular),
         "{} does not exist or is not {}", data::shown(request.data), expected);
  if (kind == "image-folder") return image_folder_starter(request);
  return kind == "tabular" ? table_starter(request) : text_starter(request);
}

}  // namespace trainctl::study
