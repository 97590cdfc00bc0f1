// A plugin of Slurm (SPANK) with one option for sbatch, salloc and srun:
//
//   sbatch --flyball=elastic,kind=bert,iterations=5000,min=1,max=8 job.sh
//
// It checks the values and publishes them as the job's comment, where `flyball cluster run` finds them:
// "flyball:elastic,kind=bert,iterations=5000,min=1,max=8", with ",shrinks" where that was given. In the job it sets
// FLYBALL_CLUSTER, the address to which flyball.elastic reports, to what plugstack.conf says: cluster=https://HOST:PORT
// or cluster=unix:PATH, and with ca=FILE FLYBALL_CLUSTER_CA, the authorities that may have issued the controller's
// certificate.
//
// With secret=FILE, a job that has an address to report to also gets FLYBALL_JOB_TOKEN, which shows over TCP that it is
// this job. It is made on the node, where the plugin runs as root and knows by Slurm's credential whose job it is, and
// stands in the environment of the job's processes, which their user and root alone can read. Neither Slurm's commands
// nor the node where the job was submitted see it, nor the secret.
//
// SPANK has no call that sets a comment. Slurm's commands keep their options in an object `opt`, which is handed on by
// name to slurm_option_set, as plugins of kind cli_filter do it (Slurm 20.11 and later). Where either is missing, the
// job is refused, rather than submitted as one that nobody grows.
//
// Runs in Slurm's processes: no exception leaves it, and it keeps no thread and no file.
#include <dlfcn.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "controller/job_token.h"

extern "C" {
#include <slurm/spank.h>

// NOLINTBEGIN(readability-identifier-naming): Slurm's names
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(flyball, 1)
// NOLINTEND(readability-identifier-naming)
}

namespace {

constexpr std::int64_t kMostIterations = 1'000'000'000'000;
constexpr std::int64_t kMostGpus = 65'536;
constexpr std::size_t kLongestKind = 64;

std::string published;  // the comment; empty: the option was not given
// Of plugstack.conf; empty: it does not say.
std::string cluster;  // address of the controller
std::string authorities;
std::string secret_file;

// What is wrong with a value, in words; empty: nothing.
using Problem = std::string;

char info[] =  // NOLINT
    "elastic,kind=NAME,iterations=N,min=GPUS,max=GPUS[,shrinks] or pipeline,kind=NAME,iterations=N";

struct Elastic {
  bool pipeline = false;
  bool shrinks = false;
  std::string_view kind;
  std::int64_t iterations = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;
};

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

Problem read_number(std::string_view name, std::string_view text, std::int64_t most, std::int64_t& value) {
  if (value != 0) return std::string(name) + " is given twice";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 1 && value <= most) return {};
  return std::string(name) + " is " + quoted(text) + ", and has to be a whole number from 1 to " + std::to_string(most);
}

Problem read_kind(std::string_view text, std::string_view& kind) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (!kind.empty()) return "kind is given twice";
  kind = text;
  if (!text.empty() && text.size() <= kLongestKind && text.find_first_not_of(kAllowed) == std::string_view::npos) {
    return {};
  }
  return "kind is " + quoted(text) + ", and has to be 1 to " + std::to_string(kLongestKind) +
         " letters, digits, '.', '_' and '-'";
}

Problem read_field(std::string_view field, Elastic& job) {
  const std::size_t equals = field.find('=');
  const std::string_view name = field.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : field.substr(equals + 1);
  if (field == "shrinks") {
    if (std::exchange(job.shrinks, true)) return "shrinks is given twice";
    return {};
  }
  if (name == "kind") return read_kind(value, job.kind);
  if (name == "iterations") return read_number(name, value, kMostIterations, job.iterations);
  if (name == "min") return read_number(name, value, kMostGpus, job.least);
  if (name == "max") return read_number(name, value, kMostGpus, job.most);
  return "there is no " + quoted(name) + "; there are kind, iterations, min, max and shrinks";
}

// Reads "elastic,kind=NAME,iterations=N,min=A,max=B,shrinks" or "pipeline,kind=NAME,iterations=N", in any order, min
// being 1 where it is missing.
Problem read_option(std::string_view text, Elastic& job) {
  std::size_t comma = text.find(',');
  job.pipeline = text.substr(0, comma) == "pipeline";
  if (!job.pipeline && text.substr(0, comma) != "elastic") return "it has to begin with \"elastic\" or \"pipeline\"";
  while (comma != std::string_view::npos) {
    text = text.substr(comma + 1);
    comma = text.find(',');
    if (Problem problem = read_field(text.substr(0, comma), job); !problem.empty()) return problem;
  }
  for (const auto& [name, missing] : {std::pair{"kind", job.kind.empty()},
                                      {"iterations", job.iterations == 0},
                                      {"max", job.most == 0 && !job.pipeline}}) {
    if (missing) return std::string(name) + " is missing; write " + info;
  }
  if (job.pipeline && (job.least != 0 || job.most != 0)) return "a pipeline has no min and max: it keeps its GPUs";
  if (job.pipeline && job.shrinks) return "a pipeline does not shrink: it keeps its GPUs";
  if (job.least == 0) job.least = 1;
  if (job.least > job.most) {
    return "min is " + std::to_string(job.least) + ", which is more than max, " + std::to_string(job.most);
  }
  return {};
}

int take_option(int /*number*/, const char* text, int /*remote*/) {
  try {
    Elastic job;
    if (const Problem problem = read_option(text, job); !problem.empty()) {
      slurm_error("--flyball=%s: %s", text, problem.c_str());
      return -1;
    }
    published = std::string(job.pipeline ? "flyball:pipeline" : "flyball:elastic") + ",kind=" + std::string(job.kind) +
                ",iterations=" + std::to_string(job.iterations);
    if (!job.pipeline) published += ",min=" + std::to_string(job.least) + ",max=" + std::to_string(job.most);
    if (job.shrinks) published += ",shrinks";
    return 0;
  } catch (const std::exception& error) {
    slurm_error("--flyball: %s", error.what());
    return -1;
  }
}

template <class Function>
Function* function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// Sets the comment in the options of the command that runs. 0: done.
int publish() {
  void* options = dlsym(RTLD_DEFAULT, "opt");
  auto* is_set = function<bool(void*, const char*)>("slurm_option_isset");
  auto* set = function<int(void*, const char*, const char*, bool)>("slurm_option_set");
  if (options == nullptr || is_set == nullptr || set == nullptr) {
    slurm_error(
        "--flyball: this Slurm lets no plugin set a comment; submit with: flyball cluster submit, or with "
        "--comment=\"%s\" in place of --flyball",
        published.c_str());
    return -1;
  }
  if (is_set(options, "comment")) {
    slurm_error("--flyball and --comment: a job's comment is where its --flyball stands; leave --comment out");
    return -1;
  }
  set(options, "comment", published.c_str(), false);  // what it returns differs from version to version
  if (!is_set(options, "comment")) {
    slurm_error("--flyball: the job's comment could not be set");
    return -1;
  }
  return 0;
}

spank_option* the_option() {
  static char name[] = "flyball";  // NOLINT: Slurm's types
  static char usage[] =            // NOLINT
      "let Flyball grow and shrink the job, which reports by flyball.elastic, or slow down a pipeline by its plan";
  static spank_option option{name, info, usage, 1, 0, take_option};
  return &option;
}

// Makes the job's token from the first line of a file that only root (or who runs Slurm) can read; empty, with a line
// in slurmd's log, where that cannot be used.
std::string token_of(std::uint32_t job, uid_t user) {
  std::array<char, 4096> text{};
  struct stat state {};
  const int file = open(secret_file.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t size = file < 0 ? -1 : read(file, text.data(), text.size());
  const bool known = file >= 0 && fstat(file, &state) == 0;
  if (file >= 0) close(file);
  const std::string_view all(text.data(), size < 0 ? 0 : static_cast<std::size_t>(size));
  const std::string_view secret = all.substr(0, all.find_first_of(" \t\r\n"));
  std::string token;
  if (size < 0 || !known) {
    slurm_error("flyball: %s cannot be read; jobs get no token", secret_file.c_str());
  } else if ((state.st_uid != 0 && state.st_uid != geteuid()) || (state.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    slurm_error("flyball: others than root may read or change %s; jobs get no token; chown root, chmod 600",
                secret_file.c_str());
  } else if (secret.size() < flyball::kShortestJobSecret) {
    slurm_error("flyball: the secret in %s is too short; jobs get no token; openssl rand -hex 32 makes one",
                secret_file.c_str());
  } else {
    token = flyball::job_token(secret, job, user);
  }
  OPENSSL_cleanse(text.data(), text.size());
  return token;
}

// Gives a job what it needs to report, and takes from others the token of the job that submitted them.
void equip(spank_t spank) {
  if (!published.empty() && !cluster.empty()) spank_setenv(spank, "FLYBALL_CLUSTER", cluster.c_str(), 0);
  std::array<char, 2> some{};
  const spank_err_t address = spank_getenv(spank, "FLYBALL_CLUSTER", some.data(), static_cast<int>(some.size()));
  const bool reports = address == ESPANK_SUCCESS || address == ESPANK_NOSPACE;
  if (reports && !authorities.empty()) spank_setenv(spank, "FLYBALL_CLUSTER_CA", authorities.c_str(), 0);
  std::uint32_t job = 0;
  uid_t user = 0;
  const bool is_known = spank_get_item(spank, S_JOB_ID, &job) == ESPANK_SUCCESS &&
                        spank_get_item(spank, S_JOB_UID, &user) == ESPANK_SUCCESS;
  const std::string token = reports && is_known && !secret_file.empty() ? token_of(job, user) : std::string();
  const bool is_set = !token.empty() && spank_setenv(spank, "FLYBALL_JOB_TOKEN", token.c_str(), 1) == ESPANK_SUCCESS;
  if (!is_set) spank_unsetenv(spank, "FLYBALL_JOB_TOKEN");
}

// Reads an argument of plugstack.conf; false where there is none of its name.
bool read_argument(std::string_view argument) {
  for (const auto& [name, value] : {std::pair<std::string_view, std::string*>{"cluster=", &cluster},
                                    {"ca=", &authorities},
                                    {"secret=", &secret_file}}) {
    if (argument.substr(0, name.size()) != name) continue;
    *value = argument.substr(name.size());
    return true;
  }
  return false;
}

}  // namespace

extern "C" {

// The arguments are those of plugstack.conf.
int slurm_spank_init(spank_t spank, int count, char** arguments) {
  for (int i = 0; i < count; ++i) {
    try {
      if (read_argument(arguments[i])) continue;
      slurm_error("flyball in plugstack.conf: there is no argument \"%s\"; there are cluster=, ca= and secret=",
                  arguments[i]);
    } catch (const std::exception& error) {
      slurm_error("flyball: %s", error.what());
    }
    return -1;
  }
  // A job's environment has its option, for its steps; another job that it submits has one only if it is given one.
  if (spank_context() == S_CTX_ALLOCATOR) {
    for (const char* name :
         {"_SLURM_SPANK_OPTION_flyball_flyball", "SLURM_SPANK__SLURM_SPANK_OPTION_flyball_flyball"}) {
      unsetenv(name);
    }
  }
  return spank_option_register(spank, the_option()) == ESPANK_SUCCESS ? 0 : -1;
}

int slurm_spank_init_post_opt(spank_t spank, int /*count*/, char** /*arguments*/) {
  const spank_context_t context = spank_context();
  if (context == S_CTX_REMOTE) {
    try {
      equip(spank);
    } catch (const std::exception& error) {
      slurm_error("flyball: %s", error.what());
    }
  }
  if (published.empty()) return 0;
  if (context != S_CTX_ALLOCATOR && context != S_CTX_LOCAL) return 0;
  // A step of a job that has its comment.
  if (context == S_CTX_LOCAL && std::getenv("SLURM_JOB_ID") != nullptr) return 0;
  return publish();
}

}  // extern "C"
