// Each function is CLI11's of the same kind. CLI11 lets an option carry nothing but checks, so that a check that is
// switched off carries in its name the words that an option suggests.
#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

namespace flyball {

Option Option::type_name(const std::string& name) const { return Option(option_->type_name(name)); }

Option Option::required(bool required) const { return Option(option_->required(required)); }

Option Option::excludes(const std::string& name) const { return Option(option_->excludes(name)); }

Option Option::suggests(const std::vector<std::string>& words) const {
  const auto accept = [](std::string&) { return std::string(); };
  return Option(option_->check(CLI::Validator(accept, "", fmt::format("{}", fmt::join(words, "\n"))).active(false)));
}

Option Option::one_value_each() const { return Option(option_->allow_extra_args(false)); }

std::string Option::name() const { return option_->get_name(); }

bool Option::is_given() const { return option_->count() > 0; }

Command Command::add_subcommand(const std::string& name, const std::string& description) const {
  app_->require_subcommand(0, 1);
  return Command(*app_->add_subcommand(name, description));
}

bool Command::subcommand_is_given() const { return !app_->get_subcommands().empty(); }

void Command::footer(const std::string& text) const { app_->footer(text); }

void Command::hide() const { app_->group(""); }

void Command::callback(const std::function<void()>& action) const { app_->callback(action); }

Option Command::add_option(const std::string& name, std::string& target, const std::string& description) const {
  return Option(app_->add_option(name, target, description));
}

Option Command::add_option(const std::string& name, std::vector<std::string>& target,
                           const std::string& description) const {
  return Option(app_->add_option(name, target, description));
}

Option Command::add_option_function(const std::string& name, const std::function<void(const std::string&)>& take,
                                    const std::string& description) const {
  return Option(app_->add_option_function<std::string>(name, take, description));
}

Option Command::add_list_function(const std::string& name,
                                  const std::function<void(const std::vector<std::string>&)>& take,
                                  const std::string& description) const {
  return Option(app_->add_option_function<std::vector<std::string>>(name, take, description));
}

Option Command::add_flag(const std::string& name, bool& target, const std::string& description) const {
  return Option(app_->add_flag(name, target, description));
}

Option Command::option(const std::string& name) const { return Option(app_->get_option(name)); }

std::vector<Option> Command::options() const {
  std::vector<Option> all;
  for (CLI::Option* option : app_->get_options()) all.emplace_back(option);
  return all;
}

}  // namespace flyball
