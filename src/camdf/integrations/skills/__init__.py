"""Skills (SKILL.md) of coding agents: candidates as tools are, read from clients' folders, and what a prompt needs."""

from camdf.integrations.skills.folders import CLIENTS, SkillFolder, SkillList, installed_skills, read_skills, skills_in
from camdf.integrations.skills.needed import NeededSkills, needed_skills
from camdf.integrations.skills.skill import Skill

__all__ = [
    "CLIENTS",
    "NeededSkills",
    "Skill",
    "SkillFolder",
    "SkillList",
    "installed_skills",
    "needed_skills",
    "read_skills",
    "skills_in",
]
