// Which files no visitor should read, by their names: as `common/domain/src/private_files.rs` has it, for `svc` and the server. Both are
// held to the paths of `private_files/cases.txt` beside it.

const EXAMPLES = new Set(['example', 'sample', 'template', 'dist', 'defaults', 'schema']);
const STAGES = new Set([
  'prod',
  'production',
  'dev',
  'development',
  'test',
  'testing',
  'stage',
  'staging',
  'local',
  'live',
  'secret',
  'secrets',
  'private',
  'ci',
  'docker',
  'server',
]);
/** Endings that programs and people give to an earlier version of a file. */
const BACKUP_ENDINGS = [
  '~',
  '.bak',
  '.backup',
  '.old',
  '.orig',
  '.save',
  '.swp',
  '.swo',
  '.tmp',
  '.copy',
  ' copy',
  '-copy',
  '_copy',
  '-backup',
  '_backup',
  '_bak',
];
const BACKUPS = 3;
/** Files and folders of credentials and keys, and repositories. */
const NAMES = new Set([
  '.npmrc',
  '.yarnrc',
  '.yarnrc.yml',
  '.pypirc',
  '.netrc',
  '_netrc',
  '.git-credentials',
  '.htpasswd',
  '.pgpass',
  '.my.cnf',
  '.mylogin.cnf',
  '.s3cfg',
  '.boto',
  '.aws',
  '.azure',
  '.gcloud',
  '.kube',
  '.docker',
  '.dockercfg',
  '.vault-token',
  '.terraformrc',
  '.rclone.conf',
  'rclone.conf',
  '.ftpconfig',
  '.ftppass',
  'sftp-config.json',
  'wp-config.php',
  '.msmtprc',
  '.fetchmailrc',
  '.subversion',
  '.terraform.d',
  '.vault_pass',
  '.vault_pass.txt',
  '.vault-pass',
  '.vault_password',
  '.sentryclirc',
  '.lftprc',
  'application_default_credentials.json',
  '.ssh',
  '.gnupg',
  'id_rsa',
  'id_dsa',
  'id_ecdsa',
  'id_ed25519',
  'id_ecdsa_sk',
  'id_ed25519_sk',
  'id_xmss',
  'secring.gpg',
  'wallet.dat',
  '.git',
  '.hg',
  '.svn',
  '.bzr',
  '.jj',
  '.terraform',
  '.envrc',
  '.flaskenv',
]);
/** Files whose names say so only together with their folder's. */
const WITH_FOLDER = new Set([
  '.cargo/credentials',
  '.cargo/credentials.toml',
  '.gem/credentials',
  '.vscode/sftp.json',
  '.streamlit/secrets.toml',
  '.composer/auth.json',
  '.m2/settings.xml',
  '.bundle/config',
  '.nuget/nuget.config',
  '.config/gcloud',
  'gh/hosts.yml',
  'config/master.key',
]);
const FORMS = [
  /\.(p12|pfx|jks|keystore|kdbx|ppk|tfstate|tfvars|tfvars\.json)$/,
  /\.tfstate\./,
  /^\..*_history$/,
  /^client[_-]secret.*\.json$/,
  /^kubeconfig([^.]*|.*\.(yaml|yml|json|conf|config|txt))$/,
  /\.kubeconfig$/,
];

/** Whether a file or folder of this name, in a folder of that name, is surely private, or an earlier version of such a file. */
export function isPrivate(part: string, folder: string): boolean {
  const name = part.toLowerCase();
  if (WITH_FOLDER.has(`${folder.toLowerCase()}/${name}`) || isPrivateOriginal(name)) return true;
  const original = withoutBackupMarks(name);
  // Vim puts a point before the name.
  return original !== name && (isPrivateOriginal(original) || isPrivateOriginal(original.replace(/^\./, '')));
}

function isPrivateOriginal(name: string): boolean {
  return NAMES.has(name) || FORMS.some((form) => form.test(name)) || isEnvironment(name);
}

/** `.env`, `.env.production`, `.env-prod`, `prod.env` and `env.production`, but no examples of them. */
function isEnvironment(name: string): boolean {
  const rest = /^\.(?:env|dev\.vars)(.*)$/s.exec(name)?.[1];
  const isExample = (text: string) => text.split('.').some((part) => EXAMPLES.has(part));
  if (rest === '') return true;
  if (
    rest !== undefined &&
    (rest.startsWith('.') ? !isExample(rest) : /^[-_]/.test(rest) && STAGES.has(rest.slice(1)))
  )
    return true;
  const before = name.endsWith('.env') ? name.slice(0, -4) : '';
  if (before !== '' && !isExample(before)) return true;
  return (
    name.startsWith('env.') &&
    name
      .slice(4)
      .split('.')
      .every((stage) => STAGES.has(stage))
  );
}

function withoutBackupMarks(name: string): string {
  let rest = /^#(.*)#$/s.exec(name)?.[1] ?? name;
  for (let n = 0; n < BACKUPS; n += 1) {
    const ending = BACKUP_ENDINGS.find((ending) => rest.endsWith(ending)) ?? '';
    const numbered = /^(.*?)\s*\(\d*\)$/s.exec(rest)?.[1];
    const shorter = numbered ?? rest.slice(0, rest.length - ending.length);
    if (shorter === '' || shorter === rest) break;
    rest = shorter;
  }
  return rest;
}
