package corpus

import "strings"

// The word lists, roughly the most frequent words first.

var english = strings.Fields(`the of and to a in is it you that he was for on are with as I his they be at one have this from
or had by but what some we can out other were all there when up use your how said an each she which do their time if will
way about many then them would write like so these her long make thing see him two has look more day could go come did my
sound no most number who over know water than call first people may down side been now find any new work part take get place
made live where after back little only round man year came show every good me give our under name very through just form
sentence great think say help low line differ turn cause much mean before move right boy old too same tell does set three
want air well also play small end put home read hand port large spell add even land here must big high such follow act why
ask men change went light kind off need house picture try us again animal point mother world near build self earth father
value index result error buffer request response context token model server client handler config parse encode decode
length offset cache thread memory pointer function return string array object key list queue stack tree node edge graph
matrix vector tensor layer weight gradient attention softmax embedding vocabulary inference latency throughput scheduler
don't it's we'll they're I'd isn't internationalization counterproductive straightforward acknowledgement Kubernetes
PostgreSQL TypeScript heterogeneous uncharacteristically antidisestablishmentarianism`)

var german = strings.Fields(`der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden
aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis mehr
durch man sein wurde Größe Straße schön möglich Überprüfung Geschwindigkeitsbegrenzung Donaudampfschifffahrtsgesellschaft
außerdem während Rechtsschutzversicherungsgesellschaften müssen können Verhältnis natürlich Zusammenarbeit`)

var french = strings.Fields(`de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il sont mais
comme ou si leur y dont aux avec cette ces l'homme d'être aujourd'hui qu'il n'est j'ai déjà été où très français élève
naïve cœur garçon à ça forêt hôpital développement connaître c'est-à-dire peut-être événement lorsque parce`)

var spanish = strings.Fields(`de la que el en y a los del se las por un para con no una su al lo como más pero sus le ya o este
sí porque esta entre cuando muy sin sobre también me hasta hay donde quien desde todo nos durante todos uno les ni contra
niño año español corazón información ¿qué? ¡hola! años aquí después también mañana pingüino rápidamente desarrollo`)

var prose = [][]string{english, english, english, german, french, spanish}

var russian = strings.Fields(`и в не на я быть он с что а по это она этот к но они мы весь который из у то за свой что весь год
от так о для ты же все тот мочь вы человек такой его сказать только или ещё бы себя один как уже до время если сам когда
другой вот говорить наш мой знать стать при чтобы дело жизнь кто первый очень два день её новый рука даже во со раз где там
под можно ну какой после их работа без самый потом надо хотеть ли слово идти большой должен место иметь ничто объявление`)

var greek = strings.Fields(`και το η ο να του της με για τα που από σε είναι τον την θα δεν στο μια αυτό στην ή οι κάτι πολύ όταν
μόνο χρόνια άνθρωπος καλημέρα ελληνική γλώσσα δημοκρατία φιλοσοφία υπολογιστής`)

var arabic = strings.Fields(`في من على إلى أن هذا التي كان عن مع الذي هذه بعد لا قد كل ما بين ذلك حتى أو عند قبل العالم يوم
السلام عليكم مرحبا الكتاب المدرسة الحاسوب اللغة العربية مُحَمَّد الإنترنت والمعلومات ١٢٣`)

var hindi = strings.Fields(`के है में की और से का को पर यह कि नहीं एक हैं भी था लिए इस हो कर ने गया तो वह जो साथ अपने कुछ बाद
नमस्ते दुनिया विद्यार्थी भारत कंप्यूटर प्रौद्योगिकी संस्कृति क्षेत्र`)

var thai = strings.Fields(`ที่และเป็นการในของมีได้ไม่ ความให้จะกับคน สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่างระหว่างคำ คอมพิวเตอร์ ประเทศไทย ๑๒๓`)

var korean = strings.Fields(`이 그 것 수 나 있는 하다 않다 없다 우리 사람 안녕하세요 세계 대한민국 컴퓨터 프로그래밍 언어모델 오늘은 날씨가
좋습니다 감사합니다 그리고 하지만 때문에 학교에서 공부를 했어요 뷁 쀍`)

var japanese = strings.Fields(`の に は を た が で て と し れ さ ある いる も する から な こと として い や れる など なっ ない この ため
その よう また もの という あり まで られ なる へ か だ これ によって により おり より による ず なり られる において
こんにちは世界 プログラミング コンピューター 東京都 日本語 機械学習 ありがとうございます ﾊﾝｶｸ ㍿`)

var scripts = [][]string{russian, russian, greek, arabic, hindi, thai, korean, japanese}

// han holds Chinese words and characters, the frequent ones first.
var han = strings.Fields(`的 一 是 不 了 在 人 有 我 他 这 个 们 中 来 上 大 为 和 国 地 到 以 说 时 要 就 出 会 可 也 你 对 生 能 而 子 那 得 于
着 下 自 之 年 过 发 后 作 里 用 道 行 所 然 家 种 事 成 方 多 经 么 去 法 学 如 都 同 现 当 没 动 面 起 看 定 天 分 还 进 好 小 部 其 些 主 样
理 心 她 本 前 开 但 因 只 从 想 实 日 军 者 意 无 力 它 与 长 把 机 十 民 第 公 此 已 工 使 情 明 性 知 全 三 又 关 点 正 业 外 将 两 高 间 由
问 很 最 重 并 物 手 应 战 向 头 文 体 政 美 相 见 被 利 什 二 等 产 或 新 己 制 身 果 加 西 斯 月 话 合 回 特 代 内 信 表 化 老 给 世 位 次 度
门 任 常 先 海 通 教 儿 原 东 声 提 立 及 比 员 解 水 名 真 论 处 走 义 各 入 几 口 认 条 平 系 气 题 活 尔 更 别 打 女 变 四 神 总 何 电 数 安
我们 他们 可以 没有 自己 什么 中国 问题 这个 进行 发展 工作 因为 所以 已经 现在 通过 技术 系统 管理 服务 数据 模型 训练 推理 注意力
机器学习 人工智能 大语言模型 神经网络 参数 显存 缓存 并发 请求 响应 上下文 词表 分词器 编码 解码 混合专家 稀疏 量化 吞吐量 延迟
但是 如果 虽然 然而 因此 例如 同时 以及 对于 关于 北京 上海 清华大学 用户 函数 变量 返回 错误 文件 目录 测试 部署 繁體 臺灣 龍 鬱 讀 書 館`)
